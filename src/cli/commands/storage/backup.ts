/** `stoa backup …`: makes backups, with or without a running server, and lists, verifies and prunes them. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { StoaError } from '../../../core/errors.js';
import type { BackupSummaries, BackupSummary } from '../../../operations/model.js';
import { checkVerdicts } from '../../../operations/verdicts.js';
import { type Action, type Context, needed, numberOption, textOption } from '../../definitions/definition.js';
import { type Column, type Output, counted, sizeText } from '../../output/output.js';

const columns: readonly Column<BackupSummary>[] = [
  ['NAME', (item) => item.name],
  ['KIND', (item) => item.kind],
  ['POSITION', (item) => item.position],
  ['SIZE', (item) => sizeText(item.size_bytes)],
  ['KEY', (item) => (item.with_key ? 'yes' : 'no')],
  ['RESTORABLE', (item) => item.reason ?? 'yes'],
];

const archive = async () => (await import('../../../homes/directory/archive.js')).directoryArchive;

export const backup: Action = async ({ connect, output }, [given], options) => {
  if (options['full'] === true && options['incremental'] === true)
    throw new StoaError('invalid_request', 'The command has both --full and --incremental.', {
      fix: 'Leave one of them out.',
    });
  const connection = await connect();
  const kind = options['incremental'] === true ? ('incremental' as const) : ('full' as const);
  const withKey = options['withKey'] === true;
  const directory = given === undefined ? undefined : resolve(given);
  if (withKey)
    output.warn(
      'This backup contains the key ring: a reader of the backup can decrypt every secret in it. Store it separately.',
    );
  const made = await output.working('Backing up', ({ update }) =>
    connection.work('backups.create', { kind, directory, with_key: withKey }, update),
  );
  output.value(made);
  if (made.not_included.length > 0)
    output.warn(
      `Not in this backup: ${made.not_included.join(', ')}. It is in another database; back that database up with its own tools.`,
    );
};

export const ls: Action = async (context, [given]) => {
  const { connect, output, globals } = context;
  // With --url the directory is on another machine.
  if (textOption(globals, 'url') !== undefined)
    show(output, await (await connect()).call('backups.list', { directory: given }));
  else {
    const directory = directoryOf(context, given);
    // Before the first backup the default directory does not exist.
    const found =
      given === undefined && !existsSync(directory)
        ? { items: [], unreadable: [] }
        : await (await archive()).list(directory);
    show(output, { next_cursor: null, ...found });
  }
};

function show(output: Output, found: BackupSummaries & { next_cursor: null }): void {
  output.list(found, columns, 'No backups.');
  for (const { reason } of found.unreadable) output.warn(reason);
}

export const verify: Action = async (context, [given]) => {
  const { output } = context;
  const directory = directoryOf(context, given);
  const verdicts = await output.working('Verifying', async ({ update }) =>
    (await archive()).verify(directory, update),
  );
  if (verdicts.length > 0)
    output.list(
      { items: verdicts },
      [
        ['NAME', (item) => item.name],
        ['KIND', (item) => item.kind],
        ['VERDICT', (item) => item.reason ?? 'whole'],
      ],
      '',
    );
  checkVerdicts(directory, verdicts);
};

export const prune: Action = async (context, [given], options) => {
  const { output } = context;
  const keep = needed(numberOption(options, 'keep'), 'keep');
  if (keep < 1)
    throw new StoaError('invalid_request', `--keep must be 1 or more, got ${keep}.`, {
      fix: 'Set the number of full backups to keep, each with its increments, for example --keep 7.',
    });
  const directory = directoryOf(context, given);
  const removed = await (await archive()).prune(directory, keep);
  for (const name of removed) output.say(`Removed ${name}.`);
  output.done({ removed }, `Removed ${counted(removed.length, 'backup')} from ${directory}.`);
};

function directoryOf({ settings }: Context, given: string | undefined): string {
  return given === undefined ? join(resolve(settings().config.data), 'backups') : resolve(given);
}
