/** The example of every operation, by group and name: `examples.tasks.claim`. */
import type { GroupName } from './call.js';
import { consoleExamples } from './console/examples.js';
import { dataExamples, documentExamples } from './datastore/examples.js';
import type { Example, ExamplesOf } from './example.js';
import { changeExamples, commitExamples } from './feed/examples.js';
import { findExamples } from './find/examples.js';
import { lockExamples } from './locks/examples.js';
import { aicqDirectExamples, aicqRoomExamples, identityExamples } from './messaging/examples.js';
import { inboxExamples, messageExamples, profileExamples, roomExamples } from './rooms/examples.js';
import { backupExamples, blockExamples, serverExamples } from './operations/examples.js';
import { agentExamples, linkExamples, tokenExamples, userExamples } from './registry/examples.js';
import { projectExamples, sessionExamples, taskExamples, workspaceExamples } from './workspaces/examples.js';

const examples: { readonly [Name in GroupName]?: ExamplesOf<Name> } = {
  data: dataExamples,
  documents: documentExamples,
  agents: agentExamples,
  users: userExamples,
  tokens: tokenExamples,
  links: linkExamples,
  workspaces: workspaceExamples,
  projects: projectExamples,
  sessions: sessionExamples,
  tasks: taskExamples,
  find: findExamples,
  locks: lockExamples,
  changes: changeExamples,
  commits: commitExamples,
  rooms: roomExamples,
  messages: messageExamples,
  inbox: inboxExamples,
  profiles: profileExamples,
  aicqRooms: aicqRoomExamples,
  aicqDirect: aicqDirectExamples,
  identities: identityExamples,
  server: serverExamples,
  backups: backupExamples,
  blocks: blockExamples,
  console: consoleExamples,
};

/** The example of an operation named `group.verb`. Undefined for routes outside of the tables. */
export function exampleNamed(name: string): Example | undefined {
  const [group = '', verb = ''] = name.split('.');
  const table: Readonly<Record<string, Readonly<Record<string, Example>> | undefined>> = examples;
  return table[group]?.[verb];
}
