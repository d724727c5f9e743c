/** Commands of the data store that are plain calls. */
import { type CommandHints, pageFlags } from '../command.js';
import type { data } from './operations.js';

export const dataCommands = {
  delete: {
    usage: 'rm <key>',
    about: 'Delete a document; the exit status is 4 if it does not exist',
    flags: [
      [
        'namespace',
        '-n, --namespace <namespace>',
        'The namespace (default: "default")',
        { otherwise: 'default' },
      ],
    ],
    examples: ['stoa data rm greeting'],
    done: ['deleted', 'key', 'Deleted {key}.'],
  },
  getSettings: {
    usage: 'settings <namespace>',
    about: 'Show the settings of a namespace',
    examples: ['stoa data settings notes'],
  },
  changeSettings: {
    usage: 'configure <namespace>',
    flags: [
      ['index', '--index', 'Let searches find documents by their words', { is: true }],
      ['index', '--no-index', 'Remove the words of documents from the search index', { is: false }],
      ['embed', '--embed', 'Give documents vectors, for searches by meaning', { is: true }],
      ['embed', '--no-embed', 'Remove the vectors of documents', { is: false }],
      ['embed_fields', '--fields <names...>', 'Embed only these members of values', 'many'],
      ['embed_fields', '--all-fields', 'Embed everything that is searched by words', 'none'],
    ],
    needsFlag: true,
    examples: [
      'stoa data configure scratch --no-index',
      'stoa data configure notes --embed',
      'stoa data configure notes --embed --fields title text',
    ],
  },
  listNamespaces: {
    usage: 'namespaces',
    about: 'List namespaces with their documents, sizes and agents',
    flags: pageFlags,
    examples: ['stoa data namespaces --user ada'],
    table: {
      columns: {
        NAMESPACE: 'namespace',
        DOCUMENTS: 'count',
        BYTES: 'sizeBytes',
        UPDATED: 'updatedAt',
        AGENTS: 'agents',
      },
      empty: 'No namespaces.',
    },
  },
} satisfies CommandHints<typeof data>;
