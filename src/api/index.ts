/** Every operation of the server by group and name, without schemas: `operations.tasks.claim`. */
import { consoleOperations } from './console/operations.js';
import { data, documents } from './datastore/operations.js';
import { find } from './find/operations.js';
import { changes, commits } from './feed/operations.js';
import { locks } from './locks/operations.js';
import { aicqDirect, aicqRooms, identities } from './messaging/operations.js';
import { inbox, messages, profiles, rooms } from './rooms/operations.js';
import type { Operation } from './operation.js';
import { agents, links, tokens, users } from './registry/operations.js';
import { backups, blocks, server } from './operations/operations.js';
import { projects, sessions, tasks, workspaces } from './workspaces/operations.js';
import type { GroupName, OperationName } from './call.js';

export const operations = {
  data,
  documents,
  agents,
  users,
  tokens,
  links,
  workspaces,
  projects,
  sessions,
  tasks,
  find,
  locks,
  changes,
  commits,
  rooms,
  messages,
  inbox,
  profiles,
  aicqRooms,
  aicqDirect,
  identities,
  server,
  backups,
  blocks,
  console: consoleOperations,
} as const satisfies Record<GroupName, Readonly<Record<string, Operation>>>;

export function operationNamed(name: OperationName): Operation {
  const [group, verb] = name.split('.') as [GroupName, string]; // A name is a group and a verb.
  const table: Readonly<Record<string, Operation>> = operations[group];
  return table[verb] as Operation; // The type of the name guarantees that it exists.
}
