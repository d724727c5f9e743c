/** The commands of all operations that are plain calls, by the name of the operation. */
import type { CommandHint } from './command.js';
import { dataCommands } from './datastore/commands.js';
import { changeCommands } from './feed/commands.js';
import { lockCommands } from './locks/commands.js';
import {
  directCommands,
  inboxCommands,
  messageCommands,
  postCommands,
  roomCommands,
} from './rooms/commands.js';
import { blockCommands, secretCommands } from './operations/commands.js';
import { agentCommands, agentSessionCommands, tokenCommands, userCommands } from './registry/commands.js';
import { projectCommands, sessionCommands, taskCommands, workspaceCommands } from './workspaces/commands.js';

const commands: Readonly<Record<string, Readonly<Record<string, CommandHint>>>> = {
  data: dataCommands,
  changes: changeCommands,
  locks: lockCommands,
  rooms: roomCommands,
  messages: { ...messageCommands, ...postCommands },
  inbox: { ...inboxCommands, ...directCommands },
  blocks: blockCommands,
  server: secretCommands,
  agents: { ...agentCommands, ...agentSessionCommands },
  tokens: tokenCommands,
  users: userCommands,
  workspaces: workspaceCommands,
  projects: projectCommands,
  sessions: sessionCommands,
  tasks: taskCommands,
};

/** The hint of an operation named `group.verb`, if it has a command. */
export function commandNamed(name: string): CommandHint | undefined {
  const [group = '', verb = ''] = name.split('.');
  return commands[group]?.[verb];
}
