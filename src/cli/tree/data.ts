/** Definitions of the commands of the data store. */
import { dataCommands as dataHints } from '../../api/datastore/commands.js';
import type { CommandDefinition } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';
import { namespaceOption, pageOptions } from './options.js';

const versionOption = [
  '--if-version <n>',
  'Only if this is the current version; 0: only if the document does not exist',
] as const;
const data = () => import('../commands/data.js');

export const dataCommands: readonly CommandDefinition[] = [
  {
    usage: 'data',
    about: 'The data store: values under keys, in namespaces',
    examples: [
      'stoa data set greeting "hello"',
      'stoa data get greeting',
      'stoa data ls --namespace files:my-repo',
    ],
    commands: [
      {
        usage: 'get <key>',
        about: 'Print a value; with --json the complete document',
        options: [namespaceOption, ['--raw', 'Print text without quotes']],
        examples: ['stoa data get greeting', 'stoa data get src/main.py -n files:my-repo --json | jq .value'],
        action: async () => (await data()).get,
      },
      {
        usage: 'set <key> [value]',
        about: 'Store a value: JSON, or any other text as a string; - reads JSON from standard input',
        options: [
          namespaceOption,
          ['--file <file>', 'Read the value from a file; - reads standard input'],
          ['--text', 'Store the value as text, even if it is valid JSON'],
          ['--metadata <json>', 'Metadata as JSON, merged into the stored metadata'],
          ['--ttl <duration>', 'Time until the document expires: 90s, 15m, 12h, 30d'],
          ['--expires-at <time>', 'Time when the document expires, in ISO 8601, instead of --ttl'],
          versionOption,
        ],
        examples: [
          'stoa data set greeting "hello"',
          'stoa data set limits \'{"cpu": 2}\' --ttl 1h',
          'stoa data set report --file report.json -n results',
        ],
        action: async () => (await data()).set,
      },
      {
        usage: 'get-many <keys...>',
        about: 'Print the values of several keys; keys without a document are left out',
        options: [namespaceOption],
        examples: ['stoa data get-many greeting limits --json'],
        action: async () => (await data()).getMany,
      },
      {
        usage: 'set-many [values]',
        about: 'Store several values in one step: a JSON object by key; - reads it from standard input',
        options: [
          namespaceOption,
          ['--file <file>', 'Read the object from a file; - reads standard input'],
          ['--ttl <duration>', 'Time until the documents expire: 90s, 15m, 12h, 30d'],
        ],
        examples: ['stoa data set-many \'{"greeting": "hello", "limits": {"cpu": 2}}\''],
        action: async () => (await data()).setMany,
      },
      {
        usage: 'ls [prefix]',
        about: 'List keys in code-point order; with --values complete documents',
        options: [namespaceOption, ['--values', 'Print whole documents'], ...pageOptions],
        examples: ['stoa data ls', 'stoa data ls src/ -n files:my-repo --json'],
        action: async () => (await data()).ls,
      },
      {
        usage: 'clear',
        about: 'Delete every document of a namespace',
        options: [namespaceOption, ['--yes', 'Confirm the deletion']],
        examples: ['stoa data clear -n scratch --yes'],
        action: async () => (await data()).clear,
      },
      {
        usage: 'increment <key> [by]',
        about: 'Add to a number; a missing document counts as 0',
        options: [namespaceOption, versionOption],
        examples: ['stoa data increment visits', 'stoa data increment budget -- -5'],
        action: async () => (await data()).increment,
      },
      {
        usage: 'append <key> <items...>',
        about: 'Append items to a list, each JSON or text',
        options: [namespaceOption, versionOption],
        examples: ['stoa data append log "started"'],
        action: async () => (await data()).append,
      },
      {
        usage: 'patch <key> [patch]',
        about:
          'Change members of an object by a JSON merge patch: null removes a member; - reads the patch from standard input',
        options: [
          namespaceOption,
          ['--file <file>', 'Read the patch from a file; - reads standard input'],
          versionOption,
        ],
        examples: ['stoa data patch limits \'{"cpu": 4, "gpu": null}\''],
        action: async () => (await data()).patch,
      },
      ...derivedCommands('data', dataHints),
    ],
  },
  {
    usage: 'move',
    about: 'Move a whole Stoa to another home, or its documents to or from another database, and verify it',
    options: [
      [
        '--from <place>',
        'The source: a data directory, or a URL: postgres:// (everything), couchdb://, dynamodb://, firestore:// (documents)',
      ],
      ['--from-redis <url>', 'The Redis of the source, if the source is PostgreSQL'],
      [
        '--to <place>',
        'The target, like --from. A directory or PostgreSQL must be empty, or contain a part of this move',
      ],
      ['--redis <url>', 'The Redis of the target, if the target is PostgreSQL'],
      ['--dry-run', 'Count the records and report obstacles; write nothing'],
      [
        '--state <file>',
        'Documents only: file for the progress, so that the same command continues after an interruption',
      ],
    ],
    examples: [
      'stoa move --from ./data --to postgres://db/stoa --redis redis://cache',
      'stoa move --from postgres://db/stoa --from-redis redis://cache --to ./data',
      'stoa move --from couchdb://localhost:5984 --to ./data --dry-run',
    ],
    action: async () => (await import('../commands/transfer/move.js')).move,
  },
];
