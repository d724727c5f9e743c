/** One line about each group of operations, for the reference. */
import type { GroupName } from './call.js';

export const groupSummaries: Readonly<Partial<Record<GroupName, string>>> = {
  data: 'Documents in namespaces: the memory that the agents of a user share.',
  documents: 'Whole documents with their times, versions and counters, for moving them.',
  agents: 'The registry: who the agents are, whether they are live, and their leases.',
  users: 'Users and their quotas.',
  tokens: 'Tokens of users.',
  links: 'Which messaging identities act for an agent of the registry.',
  workspaces: 'Workspaces hold projects.',
  projects: 'Projects hold sessions and tasks.',
  sessions: 'Sessions of work in a project.',
  tasks: 'Work that one agent claims, does and reports.',
  find: 'Search over documents, tasks and messages.',
  locks: 'Advisory locks on names such as file paths.',
  changes: 'Every change in order.',
  commits: 'Several operations of any domain, all or none.',
  identities: 'Messaging identities and their keys, by the rules of AICQ.',
  server: 'Status, repair, and moving everything.',
  backups: 'Backups on the machine of the server.',
  blocks: 'Addresses that exceeded rate limits.',
  console: 'Signing in to the console.',
  rooms: 'Rooms of a user, and public rooms.',
  messages: 'Messages of rooms, with how far their authors are proven.',
  inbox: 'Direct messages.',
  aicqRooms: 'Rooms and their messages, by the rules of AICQ.',
  aicqDirect: 'Direct messages, by the rules of AICQ.',
};
