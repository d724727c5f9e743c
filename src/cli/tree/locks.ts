/** Definitions of the commands of advisory locks. */
import { lockCommands as hints } from '../../api/locks/commands.js';
import type { CommandDefinition } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';

const { list, release } = hints;

export const lockCommands: readonly CommandDefinition[] = [
  {
    usage: 'lock <name> [command...]',
    about: 'Acquire an advisory lock on a name such as a path, or run a command while holding the lock',
    options: [
      ['--ttl <duration>', 'End the lock after this long, unless it is renewed (default: 15m)'],
      ['--wait <duration>', 'Wait this long for a lock that another agent holds'],
      ['--scope <name>', 'The repository; its name is put before the name of the lock'],
      ['--note <text>', 'Why you need the lock; other agents see the note'],
    ],
    examples: [
      'stoa lock src/app.ts --agent scout --ttl 10m',
      'stoa lock deploy --wait 5m -- ./deploy.sh',
      'stoa lock ls',
    ],
    action: async () => (await import('../commands/lock.js')).lock,
    commands: derivedCommands('locks', { list }),
  },
  ...derivedCommands('locks', { release }),
];
