/** The changes that the registry announces, the same on every home. */
import type { Change } from '../core/change.js';
import type { StoredAgent } from './model.js';

export type Facts = NonNullable<Change['facts']>;

type Named = Pick<StoredAgent, 'record' | 'meta'>;

export function agentChange(kind: `agent.${string}`, { record, meta }: Named, facts?: Facts): Change {
  return {
    domain: 'registry',
    kind,
    id: record.agent_id,
    user: meta.user,
    version: meta.version,
    ...(facts !== undefined && { facts }),
  };
}

export function sessionChange(
  kind: 'session.opened' | 'session.closed',
  { record, meta }: Named,
  sessionId: string,
): Change {
  return {
    domain: 'registry',
    kind,
    id: sessionId,
    user: meta.user,
    version: null,
    facts: { agent: record.agent_id },
  };
}

export function userChange(kind: `user.${string}`, user: string): Change {
  return { domain: 'registry', kind, id: user, user, version: null };
}
