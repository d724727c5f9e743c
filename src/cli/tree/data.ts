/** The commands of the data store: their words, options and examples. */
import { dataCommands as dataHints } from '../../api/data/commands.js';
import type { CommandDefinition } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';

const namespaceOption = ['-n, --namespace <namespace>', 'The namespace; "default" unless given'] as const;
const versionOption = [
  '--if-version <n>',
  'Only if this is still the version; 0: only if there is none',
] as const;
const pageOptions = [
  ['--limit <n>', 'Items on a page'],
  ['--cursor <cursor>', 'Go on after the page that gave this cursor'],
] as const;

const data = () => import('../commands/data.js');

export const dataCommands: readonly CommandDefinition[] = [
  {
    usage: 'data',
    about: 'What agents know: values under keys, in namespaces',
    examples: [
      'stoa data set greeting "hello"',
      'stoa data get greeting',
      'stoa data ls --namespace files:my-repo',
    ],
    commands: [
      ...derivedCommands('data', dataHints),
      {
        usage: 'get <key>',
        about: 'Print a value; with --json the whole document',
        options: [namespaceOption, ['--raw', 'Print text without quotes']],
        examples: ['stoa data get greeting', 'stoa data get src/main.py -n files:my-repo --json | jq .value'],
        action: async () => (await data()).get,
      },
      {
        usage: 'set <key> [value]',
        about: 'Store a value: JSON, or text that is no JSON as it is; - reads JSON from standard input',
        options: [
          namespaceOption,
          ['--file <file>', 'Read the value from a file; - reads standard input'],
          ['--text', 'Take the value as text, even where it looks like JSON'],
          ['--metadata <json>', 'Facts about the value, merged into what is there'],
          ['--ttl <duration>', 'It expires after this: 90s, 15m, 12h, 30d'],
          ['--expires-at <time>', 'It expires at this time, ISO 8601, instead of --ttl'],
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
        about: 'Print the values of several keys; those without a document are left out',
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
          ['--ttl <duration>', 'They expire after this: 90s, 15m, 12h, 30d'],
        ],
        examples: ['stoa data set-many \'{"greeting": "hello", "limits": {"cpu": 2}}\''],
        action: async () => (await data()).setMany,
      },
      {
        usage: 'ls [prefix]',
        about: 'List keys in code-point order; with --values whole documents',
        options: [namespaceOption, ['--values', 'Whole documents'], ...pageOptions],
        examples: ['stoa data ls', 'stoa data ls src/ -n files:my-repo --json'],
        action: async () => (await data()).ls,
      },
      {
        usage: 'clear',
        about: 'Delete every document of a namespace',
        options: [namespaceOption, ['--yes', 'It is meant']],
        examples: ['stoa data clear -n scratch --yes'],
        action: async () => (await data()).clear,
      },
      {
        usage: 'increment <key> [by]',
        about: 'Add to a number; a missing one counts as 0',
        options: [namespaceOption, versionOption],
        examples: ['stoa data increment visits', 'stoa data increment budget -- -5'],
        action: async () => (await data()).increment,
      },
      {
        usage: 'append <key> <items...>',
        about: 'Add items, each JSON or text, at the end of a list',
        options: [namespaceOption, versionOption],
        examples: ['stoa data append log "started"'],
        action: async () => (await data()).append,
      },
      {
        usage: 'patch <key> [patch]',
        about:
          'Change members of an object by a JSON merge patch: null takes a member away; - reads it from standard input',
        options: [
          namespaceOption,
          ['--file <file>', 'Read the patch from a file; - reads standard input'],
          versionOption,
        ],
        examples: ['stoa data patch limits \'{"cpu": 4, "gpu": null}\''],
        action: async () => (await data()).patch,
      },
    ],
  },
  {
    usage: 'move',
    about: 'Copy the data store between two backends, and prove that both hold the same',
    options: [
      ['--from <backend>', 'A data directory, or a URL: postgres://, couchdb://, dynamodb://, firestore://'],
      ['--to <backend>', 'The same'],
      ['--dry-run', 'Only count, and say what would not fit'],
      ['--state <file>', 'Where to note how far it is, so that the same command goes on after a break'],
    ],
    examples: [
      'stoa move --from ./data --to postgres://localhost/stoa',
      'stoa move --from couchdb://localhost:5984 --to ./data --dry-run',
    ],
    action: async () => (await import('../commands/move.js')).move,
  },
];
