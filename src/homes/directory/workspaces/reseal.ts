/**
 * Re-keying in the data directory: records are encrypted with the current key, in steps that survive a
 * restart.
 */
import type { Transaction } from '../kernel/transaction.js';
import type { Sealer } from '../../../secrets/sealer.js';
import { resealConfig } from '../../../workspaces/config-secrets.js';
import { markBulk } from './bulk.js';
import { buckets } from './keys.js';
import { decodeRecord, encodeJson } from './rows.js';

/** Marks the start; the steps follow. */
export function startReseal(tx: Transaction): void {
  markBulk(tx, 'reseal', 'all', 'workspace:');
}

/** One step from the key `from` on. Version and updated_at do not change. */
export function resealStep(
  tx: Transaction,
  sealer: Sealer,
  rowsMax: number,
  from: string,
): { next: string | null; resealed: number } {
  const inWorkspaces = from.startsWith('workspace:');
  const family = inWorkspaces ? buckets.workspaces : buckets.projects;
  let resealed = 0;
  let rows = 0;
  for (const { key, value } of tx.range(family, { gte: Buffer.from(from), limit: rowsMax + 1 })) {
    rows += 1;
    if (rows > rowsMax) return { next: key.toString(), resealed };
    const fresh = inWorkspaces ? resealedWorkspace(value, sealer) : resealedProject(value, sealer);
    if (fresh === undefined) continue;
    resealed += 1;
    tx.put(family, key, fresh);
  }
  return { next: inWorkspaces ? 'project:' : null, resealed };
}

function resealedWorkspace(value: Buffer, sealer: Sealer): Buffer | undefined {
  const workspace = decodeRecord('workspace', value);
  if (workspace.claude_key === null || !sealer.isStale(workspace.claude_key)) return undefined;
  return encodeJson({ ...workspace, claude_key: sealer.reseal(workspace.claude_key, workspace.id) });
}

function resealedProject(value: Buffer, sealer: Sealer): Buffer | undefined {
  const project = decodeRecord('project', value);
  const config = resealConfig(project.config, project.id, sealer);
  return config === project.config ? undefined : encodeJson({ ...project, config });
}
