/**
 * Links between messaging identities and agents in PostgreSQL. An identity is linked to one agent at most.
 */
import { agentChange } from '../../../registry/announcements.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { KeyedPage, KeyedPageRequest } from '../../../registry/port.js';
import { identityTaken, linkNotFound } from '../../../registry/refusals.js';
import { type Queryable, query } from '../database/connection.js';
import { type Row, text } from './rows.js';
import type { RegistryWork } from './work.js';

/** The id of an identity in `registry.owners`. */
export function linkOwnerId(identity: string): string {
  return `identity:${identity}`;
}

/** Linking an identity to the same agent again is not an error. */
export async function linkIdentity(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  identity: string,
): Promise<void> {
  const agent = await work.requireLocked(userId, agentId);
  if (await addLink(work, agent, identity)) return;
  const linked = await work.rows(
    'SELECT agent_id FROM registry.identity_links WHERE user_id = $1 AND identity = $2 AND agent_id = $3',
    [agent.record.user_id, identity, agentId],
  );
  if (linked.length === 0) throw identityTaken(identity);
}

/** Links an identity to a locked agent. Returns false if the identity is linked already. */
export async function addLink(work: RegistryWork, agent: StoredAgent, identity: string): Promise<boolean> {
  const { user_id, agent_id } = agent.record;
  if (!(await work.addOwner(linkOwnerId(identity), user_id))) return false;
  await work.rows('INSERT INTO registry.identity_links (user_id, agent_id, identity) VALUES ($1, $2, $3)', [
    user_id,
    agent_id,
    identity,
  ]);
  work.announce(agentChange('agent.linked', agent, { identity }));
  return true;
}

/** Does nothing for an identity without a link. */
export async function unlinkIdentity(
  work: RegistryWork,
  userId: string | null,
  identity: string,
): Promise<void> {
  const [owner] = await work.rows('SELECT user_id FROM registry.owners WHERE id = $1', [
    linkOwnerId(identity),
  ]);
  if (owner === undefined) return;
  const ownerId = text(owner, 'user_id');
  if (userId !== null && ownerId !== userId) throw linkNotFound(identity);
  const [link] = await work.rows(
    'SELECT agent_id FROM registry.identity_links WHERE user_id = $1 AND identity = $2',
    [ownerId, identity],
  );
  const agent = link && (await work.findLocked(ownerId, text(link, 'agent_id')));
  if (agent === undefined) return;
  const gone = await work.rows(
    `DELETE FROM registry.identity_links WHERE user_id = $1 AND agent_id = $2 AND identity = $3
      RETURNING identity`,
    [ownerId, agent.record.agent_id, identity],
  );
  if (gone.length === 0) return;
  await work.removeOwners([linkOwnerId(identity)]);
  work.announce(agentChange('agent.unlinked', agent, { identity }));
}

/** A page of the agent's identities, ordered by id. */
export async function listIdentities(
  sql: Queryable,
  owner: { userId: string; agentId: string },
  { after, limit }: KeyedPageRequest,
): Promise<KeyedPage<string>> {
  const rows = await query<Row>(
    sql,
    `SELECT identity FROM registry.identity_links WHERE user_id = $1 AND agent_id = $2 AND identity > $3
      ORDER BY identity LIMIT $4`,
    [owner.userId, owner.agentId, after ?? '', limit + 1],
  );
  const items = rows.slice(0, limit).map((row) => text(row, 'identity'));
  return { items, nextKey: rows.length > limit ? (items.at(-1) ?? null) : null };
}

export async function isLinked(
  sql: Queryable,
  userId: string,
  agentId: string,
  identity: string,
): Promise<boolean> {
  const linked = await query(
    sql,
    'SELECT 1 FROM registry.identity_links WHERE user_id = $1 AND agent_id = $2 AND identity = $3',
    [userId, agentId, identity],
  );
  return linked.length > 0;
}

/** The identities that are linked to the agent with this name or id. */
export async function identitiesOf(sql: Queryable, userId: string, agent: string): Promise<string[]> {
  const rows = await query<Row>(
    sql,
    `SELECT l.identity FROM registry.identity_links l
      JOIN registry.agents a ON a.user_id = l.user_id AND a.agent_id = l.agent_id
      WHERE l.user_id = $1 AND (a.name = $2 OR a.agent_id = $2) ORDER BY a.agent_id, l.identity`,
    [userId, agent],
  );
  return rows.map((row) => text(row, 'identity'));
}
