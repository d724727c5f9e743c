/** Reads and writes users, agents, their sessions and links in PostgreSQL as lines of an export. */
import {
  agentHoldsTasks,
  agentNameTaken,
  linkedToAnother,
  ofAnotherUser,
  orphan,
  tooManyAgents,
} from '../../../transfer/import/conflicts.js';
import type {
  AgentLine,
  AgentSessionLine,
  LinkLine,
  UserLine,
} from '../../../transfer/records/record-schemas.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { StoredUser } from '../../../registry/model.js';
import type { Conflict } from '../../../transfer/model.js';
import type { Coming, ExportScope, RecordPage, RecordStore } from '../../../transfer/port.js';
import {
  agentEssence,
  agentLine,
  countsInQuota,
  linkLine,
  sessionLine,
  userEssence,
  userLine,
} from '../../../transfer/records/registry-lines.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { absentAgents } from '../registry/agents.js';
import { linkOwnerId } from '../registry/links.js';
import { agentNamed, findAgent, findLinkedAgent, listAgents, listUsers } from '../registry/lists.js';
import type { PostgresRegistry } from '../registry/registry.js';
import { restoreAgent, restoreLink, restoreSession, restoreUser } from '../registry/restore.js';
import { type Row, number, sessionColumns, sessionOf, text } from '../registry/rows.js';
import { findSession } from '../registry/sessions.js';
import { getUser, spellingOf, userIdOf } from '../registry/users.js';
import type { RegistryWork } from '../registry/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type SqlReader, type TableAccess, type TableKind, TableRecords, pageOfRows } from './records.js';

export interface RegistryRecordsOptions {
  sql: PostgresSql;
  /** Runs a transaction that also writes its changes to the feed. */
  transact: PostgresWriter['transact'];
  registry: PostgresRegistry;
  holdsClaims: HoldsClaims;
}

/** Whether one of these names of a user holds a task. */
type HoldsClaims = (on: Queryable, user: string, holders: readonly string[]) => Promise<boolean>;

/** A table of records that belong to agents. Its key is user, agent and id. */
interface AgentTable<Line> {
  name: string;
  columns: string;
  id: string;
  lineOf(row: Row): Line;
}

const sessionTable: AgentTable<AgentSessionLine> = {
  name: 'sessions',
  columns: sessionColumns,
  id: 'session_id',
  lineOf: (row) => sessionLine(sessionOf(row), text(row, 'user_name')),
};

const linkTable: AgentTable<LinkLine> = {
  name: 'identity_links',
  columns: 'user_id, agent_id, identity',
  id: 'identity',
  lineOf: (row) => linkLine(text(row, 'user_name'), text(row, 'identity'), text(row, 'agent_id')),
};

const nothing: RecordPage<never> = { records: [], after: null };

export function registryRecords({
  sql,
  transact,
  registry,
  holdsClaims,
}: RegistryRecordsOptions): [type: string, store: RecordStore][] {
  const access: TableAccess<SqlReader, RegistryWork> = {
    reader: { sql },
    transact: (body) => transact((work) => body(registry.partOf(work))),
  };

  return [
    ['registry.user', new TableRecords(access, userKind(sql))],
    ['registry.agent', new TableRecords(access, agentKind(sql, registry.limits, holdsClaims))],
    ['registry.session', new TableRecords(access, sessionKind(sql))],
    ['registry.link', new TableRecords(access, linkKind(sql))],
  ];
}

function userKind(sql: Queryable): TableKind<UserLine, SqlReader, RegistryWork> {
  return {
    refusalOf: textRefusal,
    page: async ({ user, whole }, after, limit) => {
      if (user === null) {
        const { items, nextKey } = await listUsers(sql, { after, limit });
        const fences = whole === true ? await deletedFences(sql, items) : undefined;
        const lines = items.map((item) => userLine(item, fences?.get(item.record.user_id)));
        return { records: lines, after: nextKey };
      }
      const found = await getUser(sql, user);
      return { records: found?.user === user ? [userLine(found)] : [], after: null };
    },
    stored: async ({ sql: on }, { user }) => {
      const found = await getUser(on, user);
      return found === undefined ? undefined : userLine(found);
    },
    essence: userEssence,
    put: restoreUser,
  };
}

function agentKind(
  sql: Queryable,
  limits: Limits,
  holdsClaims: HoldsClaims,
): TableKind<AgentLine, SqlReader, RegistryWork> {
  return {
    refusalOf: textRefusal,
    page: async (scope, after, limit) => {
      const reach = await reachOf(sql, scope);
      if (reach === undefined) return nothing;
      const { items, nextKey } = await listAgents(sql, reach, {}, { after, limit });
      return { records: items.map((agent) => agentLine(agent, scope)), after: nextKey };
    },
    stored: async ({ sql: on }, { user, agent_id }) => {
      const agent = await findAgent(on, userIdOf(user), agent_id);
      return agent === undefined ? undefined : agentLine(agent);
    },
    essence: agentEssence,
    isCounted: countsInQuota,
    obstacle: async ({ sql: on }, line, coming) =>
      (await agentObstacle(on, line, coming, limits)) ?? heldName(on, line, holdsClaims),
    put: restoreAgent,
  };
}

function sessionKind(sql: Queryable): TableKind<AgentSessionLine, SqlReader, RegistryWork> {
  return {
    refusalOf: textRefusal,
    page: (scope, after, limit) => pageOf(sql, sessionTable, scope, after, limit),
    stored: async ({ sql: on }, { user, session_id }) => {
      const session = await findSession(on, userIdOf(user), session_id);
      const spelling = session === undefined ? undefined : await spellingOf(on, user);
      return session === undefined || spelling === undefined ? undefined : sessionLine(session, spelling);
    },
    obstacle: async ({ sql: on }, { user, session_id, agent_id }, coming) =>
      (await ownedByAnother(on, user, session_id)) ?? (await agentMissing(on, user, agent_id, coming)),
    put: restoreSession,
  };
}

function linkKind(sql: Queryable): TableKind<LinkLine, SqlReader, RegistryWork> {
  return {
    refusalOf: textRefusal,
    page: (scope, after, limit) => pageOf(sql, linkTable, scope, after, limit),
    stored: async ({ sql: on }, { identity }) => {
      const agent = await findLinkedAgent(on, identity, linkOwnerId(identity));
      return agent === undefined ? undefined : linkLine(agent.meta.user, identity, agent.record.agent_id);
    },
    obstacle: async ({ sql: on }, { user, identity, agent_id }, coming) => {
      const taken = await ownedByAnother(on, user, linkOwnerId(identity));
      if (taken !== null) return taken;
      const linked = await findLinkedAgent(on, identity, linkOwnerId(identity));
      return linked !== undefined && linked.record.agent_id !== agent_id
        ? linkedToAnother(identity)
        : agentMissing(on, user, agent_id, coming);
    },
    put: restoreLink,
  };
}

async function agentObstacle(
  on: Queryable,
  line: AgentLine,
  coming: Coming | undefined,
  { agentsPerUserMax }: Limits,
): Promise<Conflict | null> {
  const { user, agent_id, name } = line;
  const owner = await ownerOf(on, agent_id);
  if (owner !== undefined && owner !== userIdOf(user)) return ofAnotherUser(agent_id);
  // If another write takes the name after this, the unique index starts the transaction again.
  const named = await agentNamed(on, userIdOf(user), name);
  if (named !== undefined && named !== agent_id) return agentNameTaken(user, name, named);
  if (owner !== undefined || !countsInQuota(line)) return null;
  const known = await getUser(on, user);
  const given = coming?.agentsMax === undefined ? known?.agentsMax : coming.agentsMax;
  const agentsMax = given ?? agentsPerUserMax;
  const counted = (known?.agents ?? 0) + (coming?.newBefore ?? 0);
  // Absent agents are counted only if it matters.
  const isRoom = counted < agentsMax || counted - (await absentAgents(on, userIdOf(user))) < agentsMax;
  return isRoom ? null : tooManyAgents(user, agentsMax);
}

/** An agent that holds tasks cannot get another name. */
async function heldName(
  on: Queryable,
  { user, agent_id, name }: AgentLine,
  holdsClaims: HoldsClaims,
): Promise<Conflict | null> {
  const stored = await findAgent(on, userIdOf(user), agent_id);
  if (stored === undefined || stored.record.name === name) return null;
  // Claims have the stored spelling of the user, which the line may not have.
  const holds = await holdsClaims(on, stored.meta.user, [agent_id, stored.record.name]);
  return holds ? agentHoldsTasks(stored.record.name, name) : null;
}

/** The user id of the scope; null for all users; undefined if no user has this spelling. */
async function reachOf(sql: Queryable, { user }: ExportScope): Promise<string | null | undefined> {
  if (user === null) return null;
  return (await spellingOf(sql, user)) === user ? userIdOf(user) : undefined;
}

async function pageOf<Line extends { type: string }>(
  sql: Queryable,
  { name, columns, id, lineOf }: AgentTable<Line>,
  scope: ExportScope,
  after: string | null,
  limit: number,
): Promise<RecordPage<Line>> {
  const reach = await reachOf(sql, scope);
  if (reach === undefined) return nothing;
  const rows = {
    columns: `${columns}, user_name`,
    from: `(SELECT t.*, u.name AS user_name FROM registry.${name} t
      JOIN registry.users u ON u.user_id = t.user_id) AS found`,
    key: ['user_id', 'agent_id', id],
    ...(reach !== null && { where: 'AND user_id = $4', parameters: [reach] }),
  };
  return pageOfRows(sql, rows, lineOf, after, limit);
}

async function deletedFences(
  on: Queryable,
  users: readonly StoredUser[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await query<Row>(
    on,
    'SELECT user_id, deleted_fence FROM registry.users WHERE user_id = ANY($1::text[])',
    [users.map(({ record }) => record.user_id)],
  );
  return new Map(rows.map((row) => [text(row, 'user_id'), number(row, 'deleted_fence')]));
}

async function ownerOf(on: Queryable, id: string): Promise<string | undefined> {
  const [row] = await query<Row>(on, 'SELECT user_id FROM registry.owners WHERE id = $1', [id]);
  return row === undefined ? undefined : text(row, 'user_id');
}

async function ownedByAnother(on: Queryable, user: string, id: string): Promise<Conflict | null> {
  const owner = await ownerOf(on, id);
  return owner === undefined || owner === userIdOf(user) ? null : ofAnotherUser(id);
}

async function agentMissing(
  on: Queryable,
  user: string,
  agentId: string,
  coming: Coming | undefined,
): Promise<Conflict | null> {
  const exists = coming?.references === true || (await ownerOf(on, agentId)) === userIdOf(user);
  return exists ? null : orphan(`The agent ${agentId}`);
}

/** PostgreSQL cannot store U+0000 in text. */
function textRefusal(record: object): string | null {
  const member = Object.entries(record).find(([, value]) => hasZero(value))?.[0];
  return member === undefined
    ? null
    : `"${member}" contains the character U+0000, which PostgreSQL cannot store. Remove it from the line.`;
}

function hasZero(value: unknown): boolean {
  if (typeof value === 'string') return value.includes('\0');
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, inner]) => name.includes('\0') || hasZero(inner));
}
