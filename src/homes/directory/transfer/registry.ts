/** Users, agents, their sessions and their links, as exports have them. */
import { userKey } from '../../../identity/user-key.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { decodeSession, decodeUser } from '../../../registry/codec.js';
import { idBytes, sessionBytes } from '../../../registry/ids.js';
import { agentCountKey, linkByIdentityKey, linkKinds } from '../../../registry/keys.js';
import {
  type SessionRecord,
  type SessionStatus,
  type StoredAgent,
  agentStateBytes,
  sessionStatusBytes,
  sessionStatusOf,
  stateOf,
} from '../../../registry/model.js';
import type { AgentLine, AgentSessionLine, LinkLine, UserLine } from '../../../transfer/kinds.js';
import { erased, orphan } from '../../../transfer/compare-records.js';
import type { RecordStore } from '../../../transfer/port.js';
import type { DirectoryRegistry } from '../registry/registry.js';
import { registryFamilies as families } from '../registry/families.js';
import { linkDirectoryId, linkIdentity } from '../registry/links.js';
import { sessionRecords } from '../registry/indexes.js';
import { findAgent, readAgent, readCount, readSession, writeMeta } from '../registry/rows.js';
import { FamilyRecords } from './records.js';

export function registryRecords(
  kernel: Kernel,
  { verbs }: DirectoryRegistry,
): [type: string, store: RecordStore][] {
  const { users, agents } = verbs;
  return [
    [
      'registry.user',
      erased(
        new FamilyRecords<UserLine>(kernel, {
          family: families.users,
          read: (reader, { key }) => userLine(reader, key),
          userOf: ({ user }) => user,
          stored: (reader, { user }) => userLine(reader, userKey(user)),
          // Whoever calls is seen: that makes no other user of it.
          essence: ({ last_seen_at: _last_seen_at, ...rest }) => rest,
          put: (tx, { user, email, created_at, last_seen_at, agents_max }) =>
            users.restore(tx, user, { email, created_at, last_seen_at }, agents_max),
        }),
      ),
    ],
    [
      'registry.agent',
      erased(
        new FamilyRecords<AgentLine>(kernel, {
          family: families.agents,
          read: (reader, { key }) => agentLine(readAgent(reader, key)),
          userOf: ({ user }) => user,
          stored: (reader, { user, agent_id }) => agentLine(findAgent(reader, userKey(user), agent_id)),
          essence: ({ fence: _fence, last_heartbeat_at: _heartbeat, active_at: _active, ...rest }) => rest,
          obstacle: (reader, { user, agent_id }, coming) => {
            const owner = userKey(user);
            const holder = reader.get(families.agentsById, idBytes(agent_id));
            if (holder !== undefined)
              return holder.equals(owner)
                ? null
                : { kind: 'name_taken', detail: `The agent ${agent_id} belongs to another user.` };
            const agentsMax =
              coming?.agentsMax === undefined
                ? users.agentsMax(reader, owner)
                : (coming.agentsMax ?? kernel.limits.agentsPerUserMax);
            const count = readCount(reader, agentCountKey(owner)) + (coming?.newBefore ?? 0);
            return count < agentsMax
              ? null
              : {
                  kind: 'quota',
                  detail: `With this agent the user "${user}" exceeds ${agentsMax} agents (agents_max of the user).`,
                };
          },
          put: (tx, line) => agents.restore(tx, storedAgent(line), line.fence),
          directoryIds: ({ agent_id }) => [agent_id],
        }),
      ),
    ],
    [
      'registry.session',
      erased(
        new FamilyRecords<AgentSessionLine>(kernel, {
          family: families.sessions,
          read: (reader, { value }) => sessionLine(reader, decodeSession(value)),
          userOf: ({ user }) => user,
          stored: (reader, { session_id }) =>
            sessionLine(reader, readSession(reader, sessionBytes(session_id))),
          obstacle: (reader, { user, agent_id }, coming) =>
            coming?.references === true || findAgent(reader, userKey(user), agent_id) !== undefined
              ? null
              : orphan(`The agent ${agent_id}`),
          put: (tx, { session_id, agent_id, user, status, created_at, closed_at }) => {
            const before = readSession(tx, sessionBytes(session_id));
            sessionRecords.put(tx, before, {
              session_id,
              agent_id,
              user_id: userKey(user).toString('hex'),
              status: sessionStatusBytes[status],
              created_at,
              closed_at,
            });
            if (before?.status === sessionStatusBytes.active)
              addActiveSessions(tx, agents.require(tx, null, before.agent_id), -1);
            if (status === 'active') addActiveSessions(tx, agents.require(tx, null, agent_id), 1);
            tx.change({
              domain: 'registry',
              kind: 'session.imported',
              id: session_id,
              user,
              version: null,
              facts: { agent: agent_id },
            });
          },
          directoryIds: ({ session_id }) => [session_id],
        }),
      ),
    ],
    [
      'registry.link',
      erased(
        new FamilyRecords<LinkLine>(kernel, {
          family: families.identityLinks,
          firstByte: linkKinds.byIdentity,
          read: (reader, { key }) => linkLine(reader, key.subarray(1).toString()),
          userOf: ({ user }) => user,
          stored: (reader, { identity }) => linkLine(reader, identity),
          obstacle: (reader, { user, agent_id, identity }, coming) => {
            const linked = linkLine(reader, identity);
            if (linked !== undefined && linked.agent_id !== agent_id)
              return { kind: 'name_taken', detail: `The identity ${identity} is linked to another agent.` };
            return coming?.references === true || findAgent(reader, userKey(user), agent_id) !== undefined
              ? null
              : orphan(`The agent ${agent_id}`);
          },
          put: (tx, { user, agent_id, identity }) =>
            linkIdentity(tx, agents.require(tx, userKey(user), agent_id), identity),
          directoryIds: ({ identity }) => [linkDirectoryId(identity)],
        }),
      ),
    ],
  ];
}

function addActiveSessions(tx: Transaction, agent: StoredAgent, by: number): void {
  writeMeta(tx, { ...agent, activeSessions: agent.activeSessions + by });
}

function userLine(reader: Reader, key: Buffer): UserLine | undefined {
  const stored = reader.get(families.users, key);
  const user = reader.get(families.userNames, key)?.toString();
  if (stored === undefined || user === undefined) return undefined;
  const { email, created_at, last_seen_at } = decodeUser(stored);
  const settings = reader.get(families.userSettings, key);
  // Only `UserVerbs` writes that row.
  const { agentsMax } =
    settings === undefined
      ? { agentsMax: null }
      : (JSON.parse(settings.toString()) as { agentsMax: number | null });
  return { type: 'registry.user', user, email, created_at, last_seen_at, agents_max: agentsMax };
}

function agentLine(agent: StoredAgent | undefined): AgentLine | undefined {
  if (agent === undefined) return undefined;
  const { record, meta, lease } = agent;
  const { agent_id, name, spec, created_at, updated_at, last_heartbeat_at } = record;
  return {
    type: 'registry.agent',
    user: meta.user,
    agent_id,
    name,
    status: stateOf(record),
    spec,
    created_at,
    updated_at,
    last_heartbeat_at,
    version: meta.version,
    labels: meta.labels,
    error_message: meta.errorMessage,
    status_since: meta.statusSinceMs,
    active_at: meta.activeAtMs,
    fence: lease?.fence ?? null,
  };
}

function storedAgent(line: AgentLine): Pick<StoredAgent, 'record' | 'meta'> {
  const {
    user,
    agent_id,
    name,
    status,
    spec,
    created_at,
    updated_at,
    last_heartbeat_at,
    version,
    labels,
    error_message,
    status_since,
    active_at,
  } = line;
  return {
    record: {
      agent_id,
      user_id: userKey(user).toString('hex'),
      name,
      status: agentStateBytes[status],
      spec,
      created_at,
      updated_at,
      last_heartbeat_at,
    },
    meta: {
      version,
      user,
      labels,
      errorMessage: error_message,
      statusSinceMs: status_since,
      activeAtMs: active_at,
      activityTimerAtMs: null,
    },
  };
}

function sessionLine(reader: Reader, session: SessionRecord | undefined): AgentSessionLine | undefined {
  const user =
    session === undefined ? undefined : reader.get(families.userNames, idBytes(session.user_id))?.toString();
  if (session === undefined || user === undefined) return undefined;
  const { session_id, agent_id, created_at, closed_at } = session;
  // The codec lets no other byte through.
  return {
    type: 'registry.session',
    user,
    session_id,
    agent_id,
    status: sessionStatusOf(session.status) as SessionStatus,
    created_at,
    closed_at,
  };
}

function linkLine(reader: Reader, identity: string): LinkLine | undefined {
  const agentKey = reader.get(families.identityLinks, linkByIdentityKey(identity));
  const agent = agentKey === undefined ? undefined : findAgent(reader, null, agentKey.toString('hex'));
  return agent === undefined
    ? undefined
    : { type: 'registry.link', user: agent.meta.user, identity, agent_id: agent.record.agent_id };
}
