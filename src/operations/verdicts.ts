/** Throws an error if a verified directory of backups has a missing or damaged backup. */
import { StoaError } from '../core/errors.js';
import type { BackupVerdict } from './model.js';

/** Throws if there is no backup, or if one cannot be restored. */
export function checkVerdicts(directory: string, verdicts: readonly BackupVerdict[]): void {
  if (verdicts.length === 0)
    throw new StoaError('not_found', `The directory ${directory} has no complete backup.`, {
      fix: 'Use the directory that "stoa backup" wrote to.',
    });
  const bad = verdicts.filter(({ ok }) => !ok);
  if (bad.length === 0) return;
  throw new StoaError(
    'damaged_backup',
    `${bad.length} of ${verdicts.length} backups cannot be restored: ${bad[0]?.reason}`,
    { fix: 'Create a new full backup now, and find another copy of the damaged backups.' },
  );
}
