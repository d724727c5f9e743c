/** The data store: the commands that are plain calls. */
import { type CommandHints, pageFlags } from '../command.js';
import type { data } from './operations.js';

export const dataCommands = {
  delete: {
    usage: 'rm <key>',
    about: 'Delete a document; ends with 4 where there is none',
    flags: [
      [
        'namespace',
        '-n, --namespace <namespace>',
        'The namespace; "default" unless given',
        { otherwise: 'default' },
      ],
    ],
    examples: ['stoa data rm greeting'],
    done: ['deleted', 'key', 'Deleted {key}.'],
  },
  listNamespaces: {
    usage: 'namespaces',
    about: 'List namespaces with what is in them',
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
