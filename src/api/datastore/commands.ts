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
