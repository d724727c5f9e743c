/** Records of the registry as lines of an export, and back; what two of them have in common. */
import { userKey } from '../../identity/user-key.js';
import type { RestoredAgent } from '../../registry/lifecycle/lifecycle.js';
import {
  type Lease,
  type SessionRecord,
  type SessionStatus,
  type StoredAgent,
  type StoredUser,
  agentStateBytes,
  sessionStatusBytes,
  sessionStatusOf,
  stateOf,
} from '../../registry/model.js';
import type { AgentLine, AgentSessionLine, LinkLine, UserLine } from './record-schemas.js';
import type { ExportScope } from '../port.js';

/** `deletedFence` is given for a move. */
export function userLine({ user, record, agentsMax }: StoredUser, deletedFence?: number): UserLine {
  const { email, created_at, last_seen_at } = record;
  return {
    type: 'registry.user',
    user,
    email,
    created_at,
    last_seen_at,
    agents_max: agentsMax,
    ...(deletedFence !== undefined && { deleted_fence: deletedFence }),
  };
}

/** Each call of a user changes when it was last seen. */
export function userEssence({
  last_seen_at: _last_seen_at,
  deleted_fence: _deleted_fence,
  ...rest
}: UserLine): unknown {
  return rest;
}

export function agentLine(
  { record, meta, lease }: Omit<StoredAgent, 'activeSessions'>,
  { whole }: Pick<ExportScope, 'whole'> = {},
): AgentLine {
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
    fence: lease && lastFence(lease),
    ...(whole === true ? { lease } : { presence: lease && exportedPresence(lease) }),
  };
}

/** To another store, an agent that is present now is lost until its first call there. */
function exportedPresence({ holder, renewedAtMs, lost }: Lease): AgentLine['presence'] {
  return renewedAtMs === 0 ? null : { seen_at: renewedAtMs, lost: lost || holder !== null };
}

/** Whether a new agent counts in the quota of its user. An agent that was present is absent after the import. */
export function countsInQuota({ presence, status }: AgentLine): boolean {
  return presence === null || presence === undefined || status === 'stopped';
}

/** The last number that was given out. A lease without a holder has the next one. */
function lastFence({ holder, fence }: Lease): number {
  return holder === null ? fence - 1 : fence;
}

/** Signs of life change neither the version nor what a reader of the agent sees. */
export function agentEssence(line: AgentLine): unknown {
  const { fence: _fence, lease: _lease, presence: _presence, ...signs } = line;
  const { last_heartbeat_at: _heartbeat, active_at: _active, ...rest } = signs;
  return rest;
}

export function storedAgent(line: AgentLine): RestoredAgent {
  const { user, agent_id, name, status, spec, created_at, updated_at, last_heartbeat_at } = line;
  const { version, labels, error_message, status_since, active_at, lease, presence } = line;
  return {
    lease,
    presence: presence ?? null,
    record: {
      agent_id,
      user_id: userIdOf(user),
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

export function sessionLine(session: SessionRecord, user: string): AgentSessionLine {
  const { session_id, agent_id, created_at, closed_at } = session;
  return {
    type: 'registry.session',
    user,
    session_id,
    agent_id,
    // Homes store no other byte.
    status: sessionStatusOf(session.status) as SessionStatus,
    created_at,
    closed_at,
  };
}

export function storedSession(line: AgentSessionLine): SessionRecord {
  const { user, session_id, agent_id, status, created_at, closed_at } = line;
  return {
    session_id,
    agent_id,
    user_id: userIdOf(user),
    status: sessionStatusBytes[status],
    created_at,
    closed_at,
  };
}

export function linkLine(user: string, identity: string, agentId: string): LinkLine {
  return { type: 'registry.link', user, identity, agent_id: agentId };
}

function userIdOf(user: string): string {
  return userKey(user).toString('hex');
}
