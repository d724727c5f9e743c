/** `stoa backup …`, `stoa restore`, `stoa export` and `stoa import`: words, options and examples. */
import type { CommandDefinition } from '../definitions/definition.js';

const commands = () => import('../commands/backup.js');

export const backupCommands: readonly CommandDefinition[] = [
  {
    usage: 'backup [directory]',
    about: 'Back up while work goes on; into "backups" of the data directory unless told where',
    options: [
      ['--full', 'Everything (the default)'],
      ['--incremental', 'Only what came after the last backup there'],
      ['--with-key', 'Put the key ring for secrets in: whoever has the backup can then read them'],
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
          'Read every backup and follow every link without restoring; ends with 1 when one cannot be used',
        examples: ['stoa backup verify /var/backups/stoa'],
        action: async () => (await commands()).verify,
      },
      {
        usage: 'prune [directory]',
        about: 'Remove the oldest full backups, each with its increments',
        options: [['--keep <n>', 'How many full backups stay']],
        examples: ['stoa backup prune /var/backups/stoa --keep 7'],
        action: async () => (await commands()).prune,
      },
    ],
  },
  {
    usage: 'restore <backups>',
    about: 'Make a new data directory (--data) from backups',
    options: [
      [
        '--to <point>',
        'Stop at this time, like 2026-01-31T12:00:00Z, or at this position of the change feed',
      ],
      ['--name <backup>', 'The backup to end with; the newest unless given'],
      ['--engine <engine>', 'Engine of the new directory; that of the backup unless given'],
      ['--with-key', 'Restore the key ring for secrets too, from a backup that was made with it'],
    ],
    examples: [
      'stoa restore /var/backups/stoa --data ./restored',
      'stoa restore /var/backups/stoa --data ./restored --to 2026-01-31T12:00:00Z',
      'stoa restore /var/backups/stoa --data ./restored --to 4711',
    ],
    action: async () => (await import('../commands/restore.js')).restore,
  },
  {
    usage: 'export [file]',
    about: 'Everything as lines of JSON, into a file or to standard output; with --user only that user',
    options: [
      ['--domains <domains>', 'registry, data, workspaces, messaging, separated by commas; all unless given'],
      ['--with-secrets', 'Secrets too, as plain text'],
      ['--documents', 'Only the documents of the data store, one a line, without header and last line'],
    ],
    examples: [
      'stoa export everything.ndjson',
      'stoa export --user ada --domains data,registry | gzip > ada.ndjson.gz',
      'stoa export --documents documents.ndjson',
    ],
    action: async () => (await import('../commands/transfer.js')).exportAll,
  },
  {
    usage: 'import <file>',
    about:
      'Lines of an export into this store; - reads standard input. All lines are checked before one is written',
    options: [
      ['--dry-run', 'Only tell what would happen, with every conflict'],
      ['--ids <how>', 'keep (the default), or map: new ids, the same ones for the same file'],
      ['--on-conflict <what>', 'fail (the default), skip or replace'],
      ['--keep-going', 'Leave bad lines out, and take a file that was cut off'],
      ['--documents', 'The lines are documents alone, which are written over what is there'],
    ],
    examples: [
      'stoa import everything.ndjson --dry-run',
      'stoa import everything.ndjson --on-conflict skip',
      'stoa import ada.ndjson --ids map',
      'stoa import --documents documents.ndjson',
    ],
    action: async () => (await import('../commands/transfer.js')).importAll,
  },
];
