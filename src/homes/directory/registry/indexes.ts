/** The index rows of each agent, session and identity link of the registry. */
import { encodeAgent, encodeSession } from '../../../registry/layout/codec.js';
import { idBytes, sessionBytes } from '../../../registry/ids.js';
import {
  labelKey,
  linkByAgentKey,
  linkByIdentityKey,
  nameKey,
  sessionByAgentKey,
  sessionByStatusKey,
  statusKey,
} from '../../../registry/layout/keys.js';
import {
  type AgentRecord,
  type SessionRecord,
  type SessionStatus,
  type StoredAgent,
  sessionStatusOf,
  stateOf,
} from '../../../registry/model.js';
import { IndexedFamily } from '../indexed-family.js';
import { registryFamilies as families } from './families.js';

/** The key of a record in every family keyed by user and agent. */
export function keyOfAgent({ user_id, agent_id }: Pick<AgentRecord, 'user_id' | 'agent_id'>): Buffer {
  return Buffer.from(user_id + agent_id, 'hex');
}

/** The labels are in the meta row of an agent. */
export const agentRecords = new IndexedFamily<Pick<StoredAgent, 'record' | 'meta'>>({
  family: families.agents,
  keyOf: ({ record }) => keyOfAgent(record),
  encode: ({ record }) => encodeAgent(record),
  indexes: [
    {
      family: families.agentsById,
      keysOf: ({ record }) => idBytes(record.agent_id),
      contentOf: ({ record }) => idBytes(record.user_id),
      basisOf: () => undefined,
    },
    {
      family: families.agentsByStatus,
      keysOf: ({ record }) => statusKey(stateOf(record), idBytes(record.user_id), idBytes(record.agent_id)),
      basisOf: ({ record }) => record.status,
    },
    {
      family: families.agentsByName,
      keysOf: ({ record }) => nameKey(record.name, idBytes(record.user_id), idBytes(record.agent_id)),
      basisOf: ({ record }) => record.name,
    },
    {
      family: families.agentsByLabel,
      keysOf: ({ record, meta }) => {
        const [user, agent] = [idBytes(record.user_id), idBytes(record.agent_id)];
        return Object.entries(meta.labels).flatMap(([label, value]) => [
          labelKey(label, null, user, agent),
          labelKey(label, value, user, agent),
        ]);
      },
      basisOf: ({ meta }) => meta.labels,
    },
  ],
});

export const sessionRecords = new IndexedFamily<SessionRecord>({
  family: families.sessions,
  keyOf: ({ session_id }) => sessionBytes(session_id),
  encode: encodeSession,
  indexes: [
    {
      family: families.sessionsByAgent,
      keysOf: ({ agent_id, session_id }) => sessionByAgentKey(idBytes(agent_id), sessionBytes(session_id)),
    },
    {
      family: families.sessionsByStatus,
      keysOf: ({ agent_id, session_id, status }) =>
        // The codec has refused every other byte.
        sessionByStatusKey(
          sessionStatusOf(status) as SessionStatus,
          idBytes(agent_id),
          sessionBytes(session_id),
        ),
    },
  ],
});

/**
 * An identity speaks for one agent. The record is keyed by the identity; the agent's list of identities is
 * its index.
 */
export interface LinkRecord {
  agent: Buffer;
  identity: string;
}

export const linkRecords = new IndexedFamily<LinkRecord>({
  family: families.identityLinks,
  keyOf: ({ identity }) => linkByIdentityKey(identity),
  encode: ({ agent }) => agent,
  indexes: [
    {
      family: families.identityLinks,
      keysOf: ({ agent, identity }) => linkByAgentKey(agent, identity),
    },
  ],
});
