/**
 * Imports users, agents, sessions and links from an export. Each record was compared with the stored one
 * before its row was locked. If another write changed the row in between, the transaction starts again with a
 * new comparison.
 */
import { sessionChange, userChange } from '../../../registry/announcements.js';
import { restored } from '../../../registry/lifecycle/lifecycle.js';
import { type SessionRecord, type StoredAgent, sessionStatusBytes } from '../../../registry/model.js';
import { secondSpelling } from '../../../registry/refusals.js';
import type {
  AgentLine,
  AgentSessionLine,
  LinkLine,
  UserLine,
} from '../../../transfer/records/record-schemas.js';
import { countsInQuota, storedAgent, storedSession } from '../../../transfer/records/registry-lines.js';
import { TryAgain } from '../database/errors.js';
import { hasRoom, insertAgent } from './agents.js';
import { addLink } from './links.js';
import { number, time } from './rows.js';
import { findSession, insertSession } from './sessions.js';
import { ensureUser, userIdOf } from './users.js';
import type { RegistryWork } from './work.js';

/**
 * If another write created the same user in between, the insert violates the primary key and the transaction
 * starts again.
 */
export async function restoreUser(work: RegistryWork, line: UserLine, isNew: boolean): Promise<void> {
  const { user, email, created_at, last_seen_at, agents_max, deleted_fence } = line;
  const written = await work.rows(
    isNew
      ? `INSERT INTO registry.users
            (user_id, name, email, created_at, last_seen_at, agents_max, deleted_fence)
          VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING user_id`
      : `UPDATE registry.users SET email = $3, created_at = $4, last_seen_at = $5, agents_max = $6,
            deleted_fence = greatest(deleted_fence, $7)
          WHERE user_id = $1 AND name = $2 RETURNING user_id`,
    [userIdOf(user), user, email, time(created_at), time(last_seen_at), agents_max, deleted_fence ?? 0],
  );
  if (written.length === 0) throw secondSpelling();
  work.announce(userChange('user.imported', user));
}

export async function restoreAgent(work: RegistryWork, line: AgentLine, isNew: boolean): Promise<void> {
  const user = await ensureUser(work, line.user);
  const given = storedAgent(line);
  const before = await work.findLocked(given.record.user_id, given.record.agent_id);
  if ((before === undefined) !== isNew) throw new TryAgain();
  const outcome = restored(given, before, { given: line.fence, deleted: user.deletedFence }, work.times);
  if (before === undefined) {
    const isFull = countsInQuota(line) && !(await hasRoom(work, user));
    if (isFull || !(await insertAgent(work, outcome.agent))) throw new TryAgain();
    work.announce(...outcome.changes);
    return;
  }
  if (before.record.name !== line.name) await work.renamed(before, line.name);
  await work.store(before, outcome);
}

export async function restoreSession(
  work: RegistryWork,
  line: AgentSessionLine,
  isNew: boolean,
): Promise<void> {
  const session = storedSession(line);
  const agent = await lockedAgent(work, session);
  if (isNew) {
    if (!(await work.addOwner(session.session_id, session.user_id))) throw new TryAgain();
  } else await removeExisting(work, session);
  await insertSession(work, session);
  if (session.status === sessionStatusBytes.active) await addActiveSessions(work, session, 1);
  work.announce(sessionChange('session.imported', agent, session.session_id));
}

/** An existing link has the same agent. A link to another agent was reported as a conflict before. */
export async function restoreLink(work: RegistryWork, line: LinkLine, isNew: boolean): Promise<void> {
  const { user, agent_id, identity } = line;
  const agent = await lockedAgent(work, { user_id: userIdOf(user), agent_id });
  if (!(await addLink(work, agent, identity)) && isNew) throw new TryAgain();
}

/** Removes the stored session with the same id, which may belong to another agent of the user. */
async function removeExisting(work: RegistryWork, session: SessionRecord): Promise<void> {
  const before = await findSession(work.sql, session.user_id, session.session_id);
  if (before === undefined) throw new TryAgain();
  if (before.agent_id !== session.agent_id) await lockedAgent(work, before);
  const [removed] = await work.rows(
    'DELETE FROM registry.sessions WHERE user_id = $1 AND agent_id = $2 AND session_id = $3 RETURNING status',
    [before.user_id, before.agent_id, before.session_id],
  );
  if (removed === undefined) throw new TryAgain();
  if (number(removed, 'status') === sessionStatusBytes.active) await addActiveSessions(work, before, -1);
}

/** Locks the agent: sessions and links change only while their agent is locked. */
async function lockedAgent(
  work: RegistryWork,
  { user_id, agent_id }: Pick<SessionRecord, 'user_id' | 'agent_id'>,
): Promise<StoredAgent> {
  const agent = await work.findLocked(user_id, agent_id);
  if (agent === undefined) throw new TryAgain();
  return agent;
}

async function addActiveSessions(
  work: RegistryWork,
  { user_id, agent_id }: SessionRecord,
  by: number,
): Promise<void> {
  await work.rows(
    'UPDATE registry.agents SET active_sessions = active_sessions + $3 WHERE user_id = $1 AND agent_id = $2',
    [user_id, agent_id, by],
  );
}
