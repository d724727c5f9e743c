/** Users, agents, their sessions and their links, as exports have them. */
import type { Limits } from '../../../core/settings/limits.js';
import { userKey } from '../../../identity/user-key.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { sessionChange } from '../../../registry/announcements.js';
import { decodeSession } from '../../../registry/layout/codec.js';
import { idBytes, sessionBytes } from '../../../registry/ids.js';
import { absentCountKey, agentCountKey, linkKinds } from '../../../registry/layout/keys.js';
import { type SessionRecord, type StoredAgent, sessionStatusBytes } from '../../../registry/model.js';
import type {
  AgentLine,
  AgentSessionLine,
  LinkLine,
  UserLine,
} from '../../../transfer/records/record-schemas.js';
import {
  agentHoldsTasks,
  agentNameTaken,
  linkedToAnother,
  ofAnotherUser,
  orphan,
  tooManyAgents,
} from '../../../transfer/import/conflicts.js';
import type { ExportScope, RecordStore } from '../../../transfer/port.js';
import {
  agentEssence,
  agentLine,
  countsInQuota,
  linkLine,
  sessionLine,
  storedAgent,
  storedSession,
  userEssence,
  userLine,
} from '../../../transfer/records/registry-lines.js';
import type { DirectoryRegistry } from '../registry/registry.js';
import { registryFamilies as families } from '../registry/families.js';
import { linkDirectoryId, linkIdentity, linkedAgent } from '../registry/links/links.js';
import { sessionRecords } from '../registry/indexes.js';
import {
  agentNamed,
  countAbsence,
  fenceOfDeleted,
  findAgent,
  raiseFenceOfDeleted,
  readAgent,
  readCount,
  readSession,
  writeMeta,
} from '../registry/rows.js';
import type { UserVerbs } from '../registry/users.js';
import type { RegistryVerbs } from '../registry/verbs.js';
import { type FamilyKind, FamilyRecords } from './records.js';

/** Whether one of these names of a user holds a task. */
type HoldsClaims = (reader: Reader, user: string, holders: readonly string[]) => boolean;

export function registryRecords(
  kernel: Kernel,
  { verbs }: DirectoryRegistry,
  holdsClaims: HoldsClaims,
): [type: string, store: RecordStore][] {
  return [
    ['registry.user', new FamilyRecords(kernel, userKind(verbs))],
    ['registry.agent', new FamilyRecords(kernel, agentKind(verbs, kernel.limits, holdsClaims))],
    ['registry.session', new FamilyRecords(kernel, sessionKind(verbs))],
    ['registry.link', new FamilyRecords(kernel, linkKind(verbs))],
  ];
}

function userKind({ users }: RegistryVerbs): FamilyKind<UserLine> {
  return {
    family: families.users,
    read: (reader, { key }, scope) => findUserLine(users, reader, key, scope),
    userOf: ({ user }) => user,
    stored: (reader, { user }) => findUserLine(users, reader, userKey(user)),
    essence: userEssence,
    put: (tx, { user, email, created_at, last_seen_at, agents_max, deleted_fence }) => {
      users.restore(tx, user, { email, created_at, last_seen_at }, agents_max);
      raiseFenceOfDeleted(tx, userKey(user), deleted_fence ?? 0);
    },
  };
}

function agentKind(
  { users, agents }: RegistryVerbs,
  { agentsPerUserMax }: Limits,
  holdsClaims: HoldsClaims,
): FamilyKind<AgentLine> {
  return {
    family: families.agents,
    read: (reader, { key }, scope) => agentLineOf(readAgent(reader, key), scope),
    userOf: ({ user }) => user,
    stored: (reader, { user, agent_id }) => agentLineOf(findAgent(reader, userKey(user), agent_id)),
    essence: agentEssence,
    isCounted: countsInQuota,
    obstacle: (reader, line, coming) => {
      const { user, agent_id, name } = line;
      const owner = userKey(user);
      const holder = reader.get(families.agentsById, idBytes(agent_id));
      if (holder !== undefined && !holder.equals(owner)) return ofAnotherUser(agent_id);
      const named = agentNamed(reader, owner, name);
      if (named !== undefined && named !== agent_id) return agentNameTaken(user, name, named);
      const stored = holder && findAgent(reader, owner, agent_id);
      if (stored !== undefined && stored.record.name !== name) {
        // Claims have the stored spelling of the user, which the line may not have.
        const holds = holdsClaims(reader, stored.meta.user, [agent_id, stored.record.name]);
        if (holds) return agentHoldsTasks(stored.record.name, name);
      }
      if (holder !== undefined || !countsInQuota(line)) return null;
      const agentsMax =
        coming?.agentsMax === undefined
          ? users.agentsMax(reader, owner)
          : (coming.agentsMax ?? agentsPerUserMax);
      const present = readCount(reader, agentCountKey(owner)) - readCount(reader, absentCountKey(owner));
      return present + (coming?.newBefore ?? 0) < agentsMax ? null : tooManyAgents(user, agentsMax);
    },
    put: (tx, line, root) => agents.restore(tx, root, storedAgent(line), line.fence),
    directoryIds: ({ agent_id }) => [agent_id],
  };
}

function sessionKind({ agents }: RegistryVerbs): FamilyKind<AgentSessionLine> {
  return {
    family: families.sessions,
    read: (reader, { value }) => sessionLineOf(reader, decodeSession(value)),
    userOf: ({ user }) => user,
    stored: (reader, { session_id }) => sessionLineOf(reader, readSession(reader, sessionBytes(session_id))),
    obstacle: (reader, { user, agent_id }, coming) =>
      coming?.references === true || findAgent(reader, userKey(user), agent_id) !== undefined
        ? null
        : orphan(`The agent ${agent_id}`),
    put: (tx, line) => {
      const { session_id, agent_id, status } = line;
      const before = readSession(tx, sessionBytes(session_id));
      sessionRecords.put(tx, before, storedSession(line));
      if (before?.status === sessionStatusBytes.active)
        addActiveSessions(tx, agents.require(tx, null, before.agent_id), -1);
      const agent = agents.require(tx, null, agent_id);
      if (status === 'active') addActiveSessions(tx, agent, 1);
      tx.change(sessionChange('session.imported', agent, session_id));
    },
    directoryIds: ({ session_id }) => [session_id],
  };
}

function linkKind({ agents }: RegistryVerbs): FamilyKind<LinkLine> {
  return {
    family: families.identityLinks,
    firstByte: linkKinds.byIdentity,
    read: (reader, { key }) => findLinkLine(reader, key.subarray(1).toString()),
    userOf: ({ user }) => user,
    stored: (reader, { identity }) => findLinkLine(reader, identity),
    obstacle: (reader, { user, agent_id, identity }, coming) => {
      const linked = linkedAgent(reader, identity);
      if (linked !== undefined && linked.record.agent_id !== agent_id) return linkedToAnother(identity);
      return coming?.references === true || findAgent(reader, userKey(user), agent_id) !== undefined
        ? null
        : orphan(`The agent ${agent_id}`);
    },
    put: (tx, { user, agent_id, identity }) =>
      linkIdentity(tx, agents.require(tx, userKey(user), agent_id), identity),
    directoryIds: ({ identity }) => [linkDirectoryId(identity)],
  };
}

function addActiveSessions(tx: Transaction, agent: StoredAgent, by: number): void {
  const after = { ...agent, activeSessions: agent.activeSessions + by };
  writeMeta(tx, after);
  countAbsence(tx, agent, after);
}

/** A user without a name is not exported, because an import could not assign its records to a user. */
function findUserLine(
  users: UserVerbs,
  reader: Reader,
  key: Buffer,
  { whole }: Pick<ExportScope, 'whole'> = {},
): UserLine | undefined {
  const stored = reader.get(families.userNames, key) === undefined ? undefined : users.read(reader, key);
  if (stored === undefined) return undefined;
  return userLine(stored, whole === true ? fenceOfDeleted(reader, key) : undefined);
}

function agentLineOf(
  agent: StoredAgent | undefined,
  scope: Pick<ExportScope, 'whole'> = {},
): AgentLine | undefined {
  return agent === undefined ? undefined : agentLine(agent, scope);
}

function sessionLineOf(reader: Reader, session: SessionRecord | undefined): AgentSessionLine | undefined {
  const user =
    session === undefined ? undefined : reader.get(families.userNames, idBytes(session.user_id))?.toString();
  return session === undefined || user === undefined ? undefined : sessionLine(session, user);
}

function findLinkLine(reader: Reader, identity: string): LinkLine | undefined {
  const agent = linkedAgent(reader, identity);
  return agent === undefined ? undefined : linkLine(agent.meta.user, identity, agent.record.agent_id);
}
