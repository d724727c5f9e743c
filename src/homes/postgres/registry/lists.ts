/** Reads of agents and users in PostgreSQL: one by its id, and pages that match all filters. */
import { agentStateBytes, type StoredAgent, type StoredUser } from '../../../registry/model.js';
import type { AgentFilter, KeyedPage, KeyedPageRequest } from '../../../registry/port.js';
import { type Parameter, type Queryable, query } from '../database/connection.js';
import { type Row, agentOf, agentsOfUsers, selectAgents, text, userColumns, userOf } from './rows.js';

/** Hex digits of a user id, which is a SHA-256 hash. */
const userIdDigits = 64;

const oneAgent = `${selectAgents(agentsOfUsers)}
  WHERE agent_id = $1 AND user_id = coalesce($2, (SELECT user_id FROM registry.owners WHERE id = $1))`;

export async function findAgent(
  sql: Queryable,
  userId: string | null,
  agentId: string,
): Promise<StoredAgent | undefined> {
  const [row] = await query<Row>(sql, oneAgent, [agentId, userId]);
  return row === undefined ? undefined : agentOf(row);
}

const linked = `${selectAgents(agentsOfUsers)}
  WHERE (user_id, agent_id) = (SELECT l.user_id, l.agent_id FROM registry.identity_links l
    WHERE l.identity = $1 AND l.user_id = (SELECT user_id FROM registry.owners WHERE id = $2))`;

export async function findLinkedAgent(
  sql: Queryable,
  identity: string,
  ownerId: string,
): Promise<StoredAgent | undefined> {
  const [row] = await query<Row>(sql, linked, [identity, ownerId]);
  return row === undefined ? undefined : agentOf(row);
}

/** Ordered by user id and agent id. The page key is the digits of both, joined. */
export async function listAgents(
  sql: Queryable,
  userId: string | null,
  { status, name, label }: AgentFilter,
  { after, limit }: KeyedPageRequest,
): Promise<KeyedPage<StoredAgent>> {
  const parameters: Parameter[] = [];
  const parameter = (value: Parameter): string => `$${parameters.push(value)}`;
  const conditions = [
    ...(userId === null ? [] : [`user_id = ${parameter(userId)}`]),
    ...(status === undefined ? [] : [`status = ${agentStateBytes[status]}`]),
    ...(name === undefined ? [] : [`name = ${parameter(name)}`]),
    ...(label === undefined
      ? []
      : label.value === null
        ? [`labels::jsonb ? ${parameter(label.name)}`]
        : [`labels::jsonb @> ${parameter(JSON.stringify({ [label.name]: label.value }))}::jsonb`]),
    ...(after === null
      ? []
      : [
          `(user_id, agent_id)
            > (${parameter(after.slice(0, userIdDigits))}, ${parameter(after.slice(userIdDigits))})`,
        ]),
  ];
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
  const rows = await query<Row>(
    sql,
    `${selectAgents(agentsOfUsers)} ${where} ORDER BY user_id, agent_id LIMIT ${parameter(limit + 1)}`,
    parameters,
  );
  const items = rows.slice(0, limit).map(agentOf);
  const last = rows.length > limit ? items.at(-1)?.record : undefined;
  return { items, nextKey: last === undefined ? null : `${last.user_id}${last.agent_id}` };
}

export async function listUsers(
  sql: Queryable,
  { after, limit }: KeyedPageRequest,
): Promise<KeyedPage<StoredUser>> {
  const rows = await query<Row>(
    sql,
    `SELECT ${userColumns} FROM registry.users WHERE user_id > $1 ORDER BY user_id LIMIT $2`,
    [after ?? '', limit + 1],
  );
  const items = rows.slice(0, limit).map(userOf);
  return { items, nextKey: rows.length > limit ? (items.at(-1)?.record.user_id ?? null) : null };
}

/** The id of the user's agent with this name. */
export async function agentNamed(sql: Queryable, userId: string, name: string): Promise<string | undefined> {
  const [row] = await query<Row>(
    sql,
    'SELECT agent_id FROM registry.agents WHERE user_id = $1 AND name = $2',
    [userId, name],
  );
  return row === undefined ? undefined : text(row, 'agent_id');
}

/** Some names of the user's agents. */
export async function someNames(sql: Queryable, userId: string, limit: number): Promise<string[]> {
  const rows = await query<Row>(
    sql,
    'SELECT name FROM registry.agents WHERE user_id = $1 ORDER BY name LIMIT $2',
    [userId, limit],
  );
  return rows.map((row) => text(row, 'name'));
}
