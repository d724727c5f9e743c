/**
 * Work sessions in the data directory: verbs over a transaction, and the time limits that the sweeper
 * enforces.
 */
import { type Outage, extendedByOutages } from '../../../core/outages.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { SessionStatus, WorkSession } from '../../../workspaces/model.js';
import { holdsSlot } from '../../../workspaces/model.js';
import type { Owner } from '../../../workspaces/port.js';
import type { NewSession, SessionPatch } from '../../../workspaces/schemas.js';
import {
  changeSession,
  moveSession,
  newSession,
  sessionDeadline,
  slotTaken,
  stepsToEnd,
} from '../../../workspaces/rules/sessions.js';
import { checkVersion } from '../../../workspaces/rules/workspaces.js';
import { sessionRecords } from './indexes.js';
import { activeSlot, buckets } from './keys.js';
import { startPurge } from './bulk/purge.js';
import { addOpenTasks, openTasks, readRecord } from './rows.js';
import { type ProjectPath, countActiveTasks, findProject, findSession, sessionPath } from './tree.js';
import { sessionChanged, sessionMoved } from '../../../workspaces/changes.js';

export const sessionTimer = 'workspaces.session';

export function createSession(
  tx: Transaction,
  owner: Owner,
  projectId: string,
  id: string,
  input: NewSession,
  limits: Limits,
): WorkSession {
  const path = findProject(tx, owner, projectId);
  const session = newSession(id, projectId, input, limits, tx.nowMs);
  sessionRecords.put(tx, undefined, session);
  tx.change(sessionChanged('created', session, path.workspace.owner_id));
  return input.status === 'active'
    ? moveTo(tx, path, session, 'active', { takeover: input.takeover === true })
    : session;
}

/** The session that holds the project's slot. */
export function activeSession(reader: Reader, projectId: string): WorkSession | undefined {
  const id = reader.get(buckets.indexes, Buffer.from(activeSlot(projectId)));
  return id === undefined ? undefined : readRecord(reader, 'session', id.toString());
}

export function updateSession(
  tx: Transaction,
  owner: Owner,
  id: string,
  patch: SessionPatch,
  ifVersion: number | undefined,
): WorkSession {
  const path = findSession(tx, owner, id);
  checkVersion(path.session, ifVersion);
  const { status, takeover, ...fields } = patch;
  let { session } = path;
  if (status !== undefined) session = moveTo(tx, path, session, status, { takeover: takeover === true });
  if (Object.keys(fields).length === 0 && status !== undefined) return session;
  const after = changeSession(session, fields, tx.nowMs);
  sessionRecords.put(tx, session, after);
  scheduleDeadline(tx, after);
  tx.change(sessionChanged('updated', after, path.workspace.owner_id));
  return after;
}

/** The session is removed at once, its tasks in steps. */
export function deleteSession(
  tx: Transaction,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): void {
  const path = findSession(tx, owner, id);
  checkVersion(path.session, ifVersion);
  const open = openTasks(tx, 'session', id);
  addOpenTasks(tx, 'project', path.project.id, -open);
  countActiveTasks(tx, path.workspace.id, -open);
  sessionRecords.remove(tx, path.session);
  tx.change(sessionChanged('deleted', path.session, path.workspace.owner_id));
  startPurge(tx, { entity: 'session', id, ownerId: path.workspace.owner_id, projectId: path.project.id });
}

/** A sign of life of an idle session makes it active again. */
export function wakeSession(tx: Transaction, path: ProjectPath, session: WorkSession): WorkSession {
  return session.status === 'idle' ? moveTo(tx, path, session, 'active', {}) : session;
}

/**
 * The timer fires at the deadline that the session had when it was set. Later activity has moved the
 * deadline.
 */
export function onSessionTimer(tx: Transaction, reference: Buffer, outages: readonly Outage[]): void {
  const path = sessionPath(tx, reference.toString());
  const deadline = path === undefined ? undefined : sessionDeadline(path.session);
  if (path === undefined || deadline === undefined) return;
  // No client could send signs of life while no server ran.
  const lastActiveMs = Date.parse(path.session.last_active);
  const atMs =
    deadline.reason === 'idle' ? extendedByOutages(lastActiveMs, deadline.atMs, outages) : deadline.atMs;
  if (atMs > tx.nowMs) tx.schedule({ atMs, kind: sessionTimer, reference });
  else endSession(tx, path, path.session, deadline.reason);
}

function endSession(tx: Transaction, path: ProjectPath, session: WorkSession, reason: string): WorkSession {
  return stepsToEnd(session.status).reduce(
    (current, to) => moveTo(tx, path, current, to, { reason }),
    session,
  );
}

function moveTo(
  tx: Transaction,
  path: ProjectPath,
  session: WorkSession,
  to: SessionStatus,
  options: { takeover?: boolean; reason?: string },
): WorkSession {
  const after = moveSession(session, to, tx.nowMs);
  if (holdsSlot(to) && !holdsSlot(session.status)) {
    const holder = activeSession(tx, session.project_id);
    if (holder !== undefined && options.takeover !== true) throw slotTaken(holder);
    if (holder !== undefined) endSession(tx, path, holder, 'takeover');
  }
  sessionRecords.put(tx, session, after);
  if (to === 'active') scheduleDeadline(tx, after);
  tx.change(sessionMoved(session, after, path.workspace.owner_id, options.reason));
  return after;
}

export function scheduleDeadline(tx: Transaction, session: WorkSession): void {
  const deadline = sessionDeadline(session);
  if (deadline !== undefined)
    tx.schedule({ atMs: deadline.atMs, kind: sessionTimer, reference: Buffer.from(session.id) });
}
