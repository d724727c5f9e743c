/** Claims of tasks in PostgreSQL: claim, renew, and every way in which a claim or a task ends. */
import { claimFailure } from '../../../../workspaces/tasks/claim-failure.js';
import { type Task, type TaskLease, isOpen } from '../../../../workspaces/model.js';
import type { ClaimOutcome, Owner, Reporter } from '../../../../workspaces/port.js';
import * as questions from '../../../../workspaces/tasks/questions.js';
import * as rules from '../../../../workspaces/tasks/tasks.js';
import { updateCounters } from '../counters.js';
import { type Queryable, query } from '../../database/connection.js';
import { clockColumn } from '../../database/database-clock.js';
import { deleteDependencies, dependedOn, settleDependants } from './dependants.js';
import { type Claim, ClaimedTogether } from './claimed-together.js';
import { findProject } from '../project-verbs.js';
import { putLease, taskTable, timeText, updateRecord } from '../rows.js';
import { type SessionPath, wakeSession } from '../sessions.js';
import {
  type TaskPath,
  endOf,
  held,
  joinedTasks,
  lockLease,
  lockTask,
  lockTaskIfExists,
  taskColumns,
  taskParents,
  taskPathOf,
} from './rows.js';
import type { Mark } from '../bulk.js';
import type { WorkspacesWork } from '../work.js';
import { type TaskEvent, taskChanged } from '../../../../workspaces/changes.js';

export async function claimTask(
  work: WorkspacesWork,
  claim: Claim,
  together = new ClaimedTogether([claim]),
): Promise<ClaimOutcome> {
  const { owner, projectId, holder, leaseSeconds } = claim;
  const row = await together.next(work, claim);
  if (row === undefined) {
    // Throws if the project does not exist; otherwise it has no ready task.
    await findProject(work.sql, owner, projectId);
    return 'none';
  }
  work.readClock(row);
  const path = taskPathOf(row);
  const { ownerId } = path;
  const after = rules.claimTask(path.held, holder, leaseSeconds, work.nowMs);
  updateRecord(work, taskTable, ownerId, after.task, { before: path.held.task });
  putLease(work, ownerId, after.task.id, after.lease, path.held.lease);
  work.noteHeld(after.lease);
  work.announce(taskChanged('claimed', after.task, path, { holder, fence: after.lease.fence }));
  await wakeSession(work, path);
  recordActivity(work, path);
  return { task: after.task, lease: rules.claimLease(after.lease) };
}

export async function heartbeatTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  fence: number,
  by: Reporter,
): Promise<TaskLease> {
  const path = await lockTask(work, owner, id);
  const lease = await decided(work, path, (held, nowMs) => rules.renewLease(held, fence, nowMs, endOf, by));
  putLease(work, path.ownerId, id, lease, path.held.lease);
  work.noteHeld(lease);
  recordActivity(work, path);
  return lease;
}

export async function completeTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  rule: rules.TaskRule,
): Promise<Task> {
  const locking = lockTask(work, owner, id);
  // In the same round trip, and after the lock: from then on no other task begins to depend on this one.
  const looking = owner === null ? null : work.lookUp(dependedOn, { owner, id });
  // The lock fails too, and is awaited first.
  looking?.catch(() => undefined);
  const path = await locking;
  const after = await decided(work, path, rule);
  return endTask(work, path, after, { hasDependants: (await looking) ?? true });
}

export async function decideTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  rule: rules.TaskRule,
  event?: TaskEvent,
): Promise<Task> {
  const path = await lockTask(work, owner, id);
  return endTask(work, path, await decided(work, path, rule), { event });
}

/**
 * Decides by a rule. `lockTask` may have waited, and then its lease is from before the wait. So before a
 * refusal the lease is read again; a decision on an old lease is found by `putLease`.
 */
async function decided<T>(
  work: WorkspacesWork,
  path: TaskPath,
  rule: (held: rules.HeldTask, nowMs: number, leaseEnd: rules.LeaseEnd) => T,
): Promise<T> {
  try {
    return rule(path.held, work.nowMs, endOf);
  } catch {
    path.held = { ...path.held, lease: await lockLease(work, path) };
    return rule(path.held, work.nowMs, endOf);
  }
}

/** A check of a commit: the task is claimed with this fencing number. */
export async function requireClaim(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  fence: number,
): Promise<void> {
  const path = await lockTaskIfExists(work, owner, id);
  const claimed = path && { task: path.held.task, lease: await lockLease(work, path) };
  const failure = claimFailure(id, claimed, fence, work.nowMs, endOf);
  if (failure !== undefined) throw failure;
}

/** Makes tasks with an expired lease ready again. Returns how many expired leases were found. */
export async function returnExpired(work: WorkspacesWork, limit: number): Promise<number> {
  const rows = await work.rows(
    `SELECT expired.*, ${clockColumn} FROM (
        SELECT ${taskColumns} FROM (
            SELECT owner_id, task_id FROM workspaces.leases
            WHERE holder IS NOT NULL AND expires_at <= ${work.clockSql} ORDER BY expires_at LIMIT ${limit}
          ) due JOIN workspaces.tasks t ON t.owner_id = due.owner_id AND t.id = due.task_id ${taskParents}
        WHERE ${held} FOR UPDATE OF t SKIP LOCKED) expired`,
  );
  work.readClock(rows.at(-1));
  for (const row of rows) {
    const path = taskPathOf(row);
    const { lease } = path.held;
    if (lease !== undefined && lease.holder !== null && lease.expiresAtMs <= work.nowMs)
      await endTask(work, path, rules.loseHolder(path.held, rules.lapsedReason(lease), work.nowMs));
  }
  return rows.length;
}

/** Fails tasks whose question expired. Returns how many were found. */
export async function expireQuestions(work: WorkspacesWork, limit: number): Promise<number> {
  const rows = await work.rows(
    `SELECT expired.*, ${clockColumn} FROM (SELECT ${taskColumns} FROM ${joinedTasks}
      WHERE t.status = 'input_required' AND t.question_expires_at <= ${work.clockSql}
      ORDER BY t.question_expires_at LIMIT ${limit} FOR UPDATE OF t SKIP LOCKED) expired`,
  );
  work.readClock(rows.at(-1));
  for (const row of rows) {
    const path = taskPathOf(row);
    await endTask(work, path, questions.expireQuestion(path.held, work.nowMs));
  }
  return rows.length;
}

/** Makes tasks ready whose start time is reached. Returns how many were found. */
export async function releaseDue(work: WorkspacesWork, limit: number): Promise<number> {
  const rows = await work.rows(
    `SELECT due.*, ${clockColumn} FROM (SELECT ${taskColumns}, t.blockers FROM ${joinedTasks}
      WHERE t.status = 'pending' AND t.run_at <= ${work.clockSql}
      ORDER BY t.run_at LIMIT ${limit} FOR UPDATE OF t SKIP LOCKED) due`,
  );
  work.readClock(rows.at(-1));
  for (const row of rows) {
    const path = taskPathOf(row);
    const task = rules.startTimeReached(path.held.task, work.nowMs);
    updateRecord(work, taskTable, path.ownerId, task, { before: path.held.task });
    if (Number(row['blockers']) > 0) continue;
    work.announce(taskChanged('ready', task, path));
    work.becameReady(path.projectId, task.labels);
  }
  return rows.length;
}

/**
 * Renews all living claims of a holder in one statement. `put_lease` compares the time of the renewal with what was read,
 * which has milliseconds.
 */
export async function renewClaims(work: WorkspacesWork, ownerId: string, holder: string): Promise<null> {
  await work.rows(
    `UPDATE workspaces.leases l SET renewed_at = date_trunc('milliseconds', ${work.clockSql}),
        expires_at = ${work.clockSql} + l.lease_seconds * interval '1 second'
      FROM workspaces.tasks t WHERE t.owner_id = $1 AND t.claimed_by = $2 AND ${held}
        AND l.owner_id = t.owner_id AND l.task_id = t.id AND l.holder = $2 AND l.expires_at > ${work.clockSql}`,
    [ownerId, holder],
  );
  return null;
}

/**
 * Makes the tasks ready again that an agent has claimed under its id or its name. The row of the agent is
 * locked here, and a write with a fencing number locks it after its tasks. So locked tasks are not waited
 * for: they follow after the commit, like those beyond one step.
 */
export async function releaseClaims(
  work: WorkspacesWork,
  ownerId: string,
  holders: readonly string[],
): Promise<void> {
  const released = await releaseStep(work, { ownerId, holders, untilMs: null, locking: 'SKIP LOCKED' });
  const left = await work.rows<{ claimed_by: string }>(
    `SELECT DISTINCT t.claimed_by FROM workspaces.tasks t
      WHERE t.owner_id = $1 AND t.claimed_by = ANY($2::text[]) AND ${held} AND NOT t.id = ANY($3::text[])`,
    [ownerId, holders, released],
  );
  // A row for each time, so that this transaction waits for none.
  for (const { claimed_by: holder } of left)
    work.addBulkWork(ownerId, 'release', `${work.nowMs} ${holder}`, holder);
}

/** Whether a task is claimed under one of these names. */
export async function holdsClaims(
  on: Queryable,
  ownerId: string,
  holders: readonly string[],
): Promise<boolean> {
  const found = await query(
    on,
    `SELECT 1 FROM workspaces.tasks t WHERE t.owner_id = $1 AND t.claimed_by = ANY($2::text[]) AND ${held} LIMIT 1`,
    [ownerId, holders],
  );
  return found.length > 0;
}

/** Releases tasks that the agent had claimed when its presence ended. Returns true if none is left. */
export async function releaseRest(
  work: WorkspacesWork,
  { owner_id: ownerId, name, value: holder }: Mark,
): Promise<boolean> {
  const untilMs = Number(name.split(' ')[0]);
  const released = await releaseStep(work, { ownerId, holders: [holder], untilMs, locking: '' });
  return released.length < work.limits.workspaceStepRowsMax;
}

interface Release {
  readonly ownerId: string;
  readonly holders: readonly string[];
  /** Later claims stay: the agent is back. */
  readonly untilMs: number | null;
  readonly locking: 'SKIP LOCKED' | '';
}

async function releaseStep(
  work: WorkspacesWork,
  { ownerId, holders, untilMs, locking }: Release,
): Promise<string[]> {
  const rows = await work.rows(
    `SELECT ${taskColumns} FROM ${joinedTasks}
      WHERE t.owner_id = $1 AND t.claimed_by = ANY($2::text[]) AND ${held}
        AND ($3::timestamptz IS NULL OR t.started_at <= $3)
      LIMIT ${work.limits.workspaceStepRowsMax} FOR UPDATE OF t ${locking}`,
    [ownerId, holders, untilMs === null ? null : timeText(untilMs)],
  );
  for (const row of rows) {
    const path = taskPathOf(row);
    const reason = rules.presenceLostReason(path.held.task.claimed_by ?? '');
    await endTask(work, path, rules.loseHolder(path.held, reason, work.nowMs));
  }
  return rows.map((row) => taskPathOf(row).held.task.id);
}

/**
 * Stores a change of a claimed task, such as its end or return, and updates its dependants and counters.
 * `after` is undefined if a repeated request changes nothing.
 */
async function endTask(
  work: WorkspacesWork,
  path: TaskPath,
  after: rules.HeldTask | undefined,
  { event, hasDependants = true }: { event?: TaskEvent | undefined; hasDependants?: boolean } = {},
): Promise<Task> {
  const before = path.held.task;
  if (after === undefined) return before;
  const { ownerId } = path;
  const { task, lease } = after;
  const endsUnclaimed = before.status === 'pending' && task.status !== 'pending';
  updateRecord(work, taskTable, ownerId, task, { before, more: endsUnclaimed ? { blockers: 0 } : {} });
  if (endsUnclaimed) deleteDependencies(work, ownerId, task.id);
  if (lease !== undefined) putLease(work, ownerId, task.id, lease, path.held.lease);
  work.announce(taskChanged(event ?? rules.eventOf(before, task), task, path, rules.factsOf(before)));
  if (task.status === 'pending' && task.run_at === null) work.becameReady(path.projectId, task.labels);
  if (task.status === 'completed' && hasDependants)
    await settleDependants(work, ownerId, task.id, 'completed', work.limits.workspaceStepRowsMax);
  if (rules.endsWithoutResult(task))
    await settleDependants(work, ownerId, task.id, 'never', work.limits.workspaceStepRowsMax);
  if (!isOpen(task.status))
    updateCounters(work, ownerId, task.session_id, {
      open: -1,
      ...(task.status !== 'cancelled' && { finished: task }),
    });
  return task;
}

/** Updates `last_active` of the session, at most once per `workSessionActivitySeconds`. */
function recordActivity(work: WorkspacesWork, { ownerId, session }: SessionPath): void {
  const sinceActivityMs = work.nowMs - Date.parse(session.last_active);
  if (sinceActivityMs < work.limits.workSessionActivitySeconds * 1_000) return;
  updateCounters(work, ownerId, session.id, { open: 0, isActivity: true });
}
