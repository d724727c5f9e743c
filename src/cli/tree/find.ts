/** The commands of the search. */
import type { CommandDefinition } from '../definitions/definition.js';

export const findCommands: readonly CommandDefinition[] = [
  {
    usage: 'find [words...]',
    about: 'Search documents, tasks and messages, the best first',
    options: [
      ['--in <kinds>', 'Search only in these, separated by commas: data, tasks, messages (default: all)'],
      ['--mode <mode>', 'text finds by words, vector by meaning, hybrid by both (default: text)'],
      ['-n, --namespace <namespace>', 'Only documents of this namespace'],
      ['--prefix <prefix>', 'Only documents whose key begins with this text'],
      ['--project <project>', 'Only tasks of this project'],
      ['--room <room>', 'Only messages of this room'],
      ['--by <agent>', 'Only results that this agent wrote last'],
      ['--since <time>', 'Only results written at this time or later, such as 2026-01-31'],
      ['--until <time>', 'Only results written before this time'],
      ['--filter <json>', 'Conditions on the values of documents'],
      ['--sort <member>', 'Sort by a member of the value; with - before it, the highest first'],
      ['--limit <n>', 'Results on a page'],
      ['--cursor <cursor>', 'Continue after the page that returned this cursor'],
    ],
    examples: [
      'stoa find which database did we choose',
      'stoa find \'"build failed" -staging\' --in tasks,messages',
      'stoa find deploy -- -staging',
      'stoa find --filter \'{"status": "open"}\' --sort -priority',
    ],
    action: async () => (await import('../commands/find.js')).find,
  },
  {
    usage: 'reindex',
    about: 'Build the search index again, while the server works',
    options: [['-n, --namespace <namespace>', 'Only documents of this namespace']],
    examples: ['stoa reindex', 'stoa reindex --namespace notes'],
    action: async () => (await import('../commands/find.js')).reindex,
  },
];
