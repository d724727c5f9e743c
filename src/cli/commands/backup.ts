/** `stoa backup …`: backups while the server runs or without one, and a look at those that there are. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { loadConfig } from '../../core/settings/config.js';
import { StoaError } from '../../core/errors.js';
import type { BackupSummaries, BackupSummary } from '../../homes/directory/kernel/backup/chain.js';
import { type Action, type Options, numberOption, textOption } from '../definition.js';
import { type Column, type Output, sizeText } from '../output.js';
import { settingFlags } from '../setting-flags.js';

const columns: readonly Column<BackupSummary>[] = [
  ['NAME', (item) => item.name],
  ['KIND', (item) => item.kind],
  ['POSITION', (item) => item.position],
  ['SIZE', (item) => sizeText(item.size_bytes)],
  ['KEY', (item) => (item.with_key ? 'yes' : 'no')],
  ['RESTORABLE', (item) => item.reason ?? 'yes'],
];

export const backup: Action = async ({ connect, output }, [given], options) => {
  if (options['full'] === true && options['incremental'] === true)
    throw new StoaError('invalid_request', '--full and --incremental exclude each other.');
  const connection = await connect();
  const kind = options['incremental'] === true ? ('incremental' as const) : ('full' as const);
  const withKey = options['withKey'] === true;
  const directory = given === undefined ? undefined : resolve(given);
  if (withKey)
    output.warn(
      'This backup holds the key ring: whoever reads it can read every secret in it. Keep it apart.',
    );
  if (connection.stoa === undefined) {
    output.say(`${connection.where} makes ${kind === 'full' ? 'a full' : 'an incremental'} backup …`);
    const progress = output.progress('Backing up');
    try {
      const made = await connection.work('backups.create', { kind, directory, with_key: withKey }, (step) =>
        progress.update(step),
      );
      progress.end();
      showMade(output, made);
    } finally {
      progress.end();
    }
    return;
  }
  const [{ backup: makeBackup }, { summaryOf }] = await Promise.all([
    import('../../homes/directory/kernel/backup/backup.js'),
    import('../../homes/directory/kernel/backup/chain.js'),
  ]);
  const { kernel, secrets, keptElsewhere } = connection.stoa;
  const target = directory ?? join(resolve(kernel.dataDir), 'backups');
  const progress = output.progress('Backing up');
  try {
    const readKey = withKey ? () => readFile(secrets.ring.fileForCopy()) : undefined;
    const description = await makeBackup(kernel, {
      directory: target,
      kind,
      readKey,
      onProgress: (step) => progress.update(step),
    });
    progress.end();
    showMade(output, { ...summaryOf(target, description), not_included: [...keptElsewhere] });
  } finally {
    progress.end();
  }
};

interface CreatedBackup extends BackupSummary {
  not_included: string[];
}

function showMade(output: Output, made: CreatedBackup): void {
  output.value(made);
  if (made.not_included.length > 0)
    output.warn(
      `Not in this backup: ${made.not_included.join(', ')}. Another database keeps that; back it up with its own tools.`,
    );
}

export const ls: Action = async ({ connect, output, globals }, [given]) => {
  // With --url the directory is on another machine.
  if (textOption(globals, 'url') !== undefined) {
    show(output, await (await connect()).call('backups.list', { directory: given }));
    return;
  }
  const { summariesIn } = await import('../../homes/directory/kernel/backup/chain.js');
  show(output, { next_cursor: null, ...(await summariesIn(directoryOf(given, globals))) });
};

function show(output: Output, found: BackupSummaries & { next_cursor: null }): void {
  output.list(found, columns, 'No backups.');
  for (const { reason } of found.unreadable) output.warn(reason);
}

export const verify: Action = async ({ output, globals }, [given]) => {
  const directory = directoryOf(given, globals);
  const { verifyBackups } = await import('../../homes/directory/kernel/backup/read.js');
  const progress = output.progress('Verifying');
  let verdicts: Awaited<ReturnType<typeof verifyBackups>>;
  try {
    verdicts = await verifyBackups(directory, (step) => progress.update(step));
  } finally {
    progress.end();
  }
  if (verdicts.length === 0)
    throw new StoaError('not_found', `${directory} holds no complete backup.`, {
      fix: 'Name the directory that "stoa backup" wrote to.',
    });
  output.list(
    { items: verdicts },
    [
      ['NAME', (item) => item.name],
      ['KIND', (item) => item.kind],
      ['VERDICT', (item) => item.reason ?? 'whole'],
    ],
    '',
  );
  const bad = verdicts.filter(({ ok }) => !ok);
  if (bad.length === 0) return;
  throw new StoaError(
    'damaged_backup',
    `${bad.length} of ${verdicts.length} backups cannot be restored: ${bad[0]?.reason}`,
    { fix: 'Make a new full backup now, and find another copy of the damaged ones.' },
  );
};

export const prune: Action = async ({ output, globals }, [given], options) => {
  const keep = numberOption(options, 'keep');
  if (keep === undefined || keep < 1)
    throw new StoaError(
      'invalid_request',
      '--keep says how many full backups stay, each with its increments: 1 or more.',
    );
  const directory = directoryOf(given, globals);
  const [{ listBackups }, { removeUnfinished }, { pruneChains }] = await Promise.all([
    import('../../homes/directory/kernel/backup/chain.js'),
    import('../../homes/directory/kernel/backup/leftovers.js'),
    import('../../homes/directory/kernel/backup/schedule.js'),
  ]);
  const stores = new Set((await listBackups(directory)).map((description) => description.store));
  const removed = await removeUnfinished(directory);
  for (const store of stores) removed.push(...(await pruneChains(directory, store, keep)));
  for (const name of removed) output.say(`Removed ${name}.`);
  output.done({ removed }, `${removed.length} backups were removed from ${directory}.`);
};

function directoryOf(given: string | undefined, globals: Options): string {
  return given === undefined
    ? join(
        resolve(loadConfig({ flags: settingFlags(globals), environment: process.env }).config.data),
        'backups',
      )
    : resolve(given);
}
