/** Definitions of `stoa backup …`, `stoa restore`, `stoa export` and `stoa import`. */
import type { CommandDefinition } from '../definitions/definition.js';

const commands = () => import('../commands/storage/backup.js');

export const backupCommands: readonly CommandDefinition[] = [
  {
    usage: 'backup [directory]',
    about: 'Create a backup while the server runs (default: into "backups" in the data directory)',
    options: [
      ['--full', 'Copy everything, as without a flag'],
      ['--incremental', 'Copy only the changes since the last backup in the directory'],
      ['--with-key', 'Include the key ring: a reader of the backup can then decrypt every secret'],
    ],
    examples: [
      'stoa backup --full /var/backups/stoa',
      'stoa backup --incremental /var/backups/stoa',
      'stoa backup verify /var/backups/stoa',
    ],
    action: async () => (await commands()).backup,
    commands: [
      {
        usage: 'ls [directory]',
        about: 'List backups, oldest first',
        examples: ['stoa backup ls /var/backups/stoa'],
        action: async () => (await commands()).ls,
      },
      {
        usage: 'verify [directory]',
        about:
          'Read and check every backup and chain without restoring; the exit status is 1 if one cannot be used',
        examples: ['stoa backup verify /var/backups/stoa'],
        action: async () => (await commands()).verify,
      },
      {
        usage: 'prune [directory]',
        about: 'Remove the oldest full backups, each with its increments',
        options: [['--keep <n>', 'Number of full backups to keep']],
        examples: ['stoa backup prune /var/backups/stoa --keep 7'],
        action: async () => (await commands()).prune,
      },
    ],
  },
  {
    usage: 'restore <backups>',
    about: 'Create a new data directory (--data) from backups',
    options: [
      [
        '--to <point>',
        'Stop at this time, like 2026-01-31T12:00:00Z, or at this position of the change feed',
      ],
      ['--name <backup>', 'The last backup of the chain (default: the newest)'],
      ['--engine <engine>', 'Engine of the new directory (default: that of the backup)'],
      ['--with-key', 'Restore the key ring too, from a backup that contains it'],
    ],
    examples: [
      'stoa restore /var/backups/stoa --data ./restored',
      'stoa restore /var/backups/stoa --data ./restored --to 2026-01-31T12:00:00Z',
      'stoa restore /var/backups/stoa --data ./restored --to 4711',
    ],
    action: async () => (await import('../commands/storage/restore.js')).restore,
  },
  {
    usage: 'export [file]',
    about: 'Export all data as lines of JSON, to a file or standard output; with --user only that user',
    options: [
      ['--domains <domains>', 'registry, data, workspaces, messaging, separated by commas (default: all)'],
      ['--with-secrets', 'Include secrets as plain text'],
      ['--documents', 'Only the documents of the data store, one on each line, without header and last line'],
    ],
    examples: [
      'stoa export everything.ndjson',
      'stoa export --user ada --domains data,registry | gzip > ada.ndjson.gz',
      'stoa export --documents documents.ndjson',
    ],
    action: async () => (await import('../commands/transfer/transfer.js')).exportAll,
  },
  {
    usage: 'import <file>',
    about:
      'Import the lines of an export; - reads standard input. All lines are validated before the first is written',
    options: [
      ['--dry-run', 'Report what would happen, with every conflict, without writing'],
      [
        '--ids <how>',
        'keep the ids, or map them to new ones, the same each time for the same file (default: keep)',
      ],
      ['--on-conflict <what>', 'fail, skip or replace (default: fail)'],
      ['--keep-going', 'Skip invalid lines, and accept an incomplete file'],
      ['--documents', 'The lines are only documents; existing documents are replaced'],
    ],
    examples: [
      'stoa import everything.ndjson --dry-run',
      'stoa import everything.ndjson --on-conflict skip',
      'stoa import ada.ndjson --ids map',
      'stoa import --documents documents.ndjson',
    ],
    action: async () => (await import('../commands/transfer/transfer.js')).importAll,
  },
];
