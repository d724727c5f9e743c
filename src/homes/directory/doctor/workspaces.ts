/** What must hold between the records of workspaces, their indexes, counters and leases. */
import { type Damage, type ExaminedRow, wrongRow } from '../kernel/inspect/damage.js';
import { type Check, type Found, eachRow, type turn } from '../kernel/inspect/doctor.js';
import { prefixRange } from '../kernel/engine.js';
import type { IndexRow } from '../indexed-family.js';
import { inspectIndexRow, inspectRows } from './indexes.js';
import type { Reader } from '../kernel/transaction.js';
import { type Entity, type Task, heldStatuses, isOpen, taskStatuses } from '../../../workspaces/model.js';
import { sessionDeadline } from '../../../workspaces/rules/sessions.js';
import { returnTask } from '../../../workspaces/tasks/tasks.js';
import { SharedTimers, inspectTimer } from './timers.js';
import { type BulkKind, bulkMark } from '../workspaces/bulk/bulk.js';
import { projectRecords, sessionRecords, taskRecords, workspaceRecords } from '../workspaces/indexes.js';
import { bucketOf, buckets, entityOf, idOfKey, indexPrefix, unescapePart } from '../workspaces/keys.js';
import { decodeRecord, openTasks, openTasksKey, readLease, readRecord } from '../workspaces/rows.js';
import { sessionTimer } from '../workspaces/sessions.js';
import { changeHeld, leaseTimer, placedTask, timerOfTask } from '../workspaces/tasks/rows.js';
import { sessionPath } from '../workspaces/tree.js';

/** Counters come after the records that they count, because repairing a record may change them. */
export function workspaceChecks(): Check[] {
  const timers = new SharedTimers([sessionTimer]);
  return [
    ...(['workspace', 'project', 'session', 'task'] as const).map((entity): Check => ({
      family: bucketOf[entity],
      inspect: (row) => recordDamage(entity, row),
    })),
    { family: buckets.indexes, inspect: indexDamage },
    { family: buckets.leases, inspect: leaseDamage },
    { family: buckets.sessions, inspect: (row) => sessionDamage(timers, row) },
    { family: buckets.projects, inspect: ({ reader, key }) => projectCounterDamage(reader, idOfKey(key)) },
    { family: buckets.workspaces, inspect: workspaceCounterDamage },
    { family: buckets.metadata, inspect: noteDamage },
  ];
}

function* recordDamage(entity: Entity, row: ExaminedRow): Generator<Damage> {
  const { reader } = row;
  const id = idOfKey(row.key);
  const record = decodeRecord(entity, row.value);
  if (record.id !== id) {
    yield row.unreadable(`The record of ${id} has another id.`);
    return;
  }
  const expected = expectedRows(reader, id);
  if (expected === undefined) {
    if (!isBeingPurged(reader, id)) yield row.orphan(`The parent record of ${id} does not exist.`);
    return;
  }
  yield* inspectRows(reader, expected, id);
  if (entity !== 'task') return;
  const task = decodeRecord('task', row.value);
  yield* runningDamage(row, task);
  const timer = timerOfTask(task);
  if (timer !== undefined) yield* inspectTimer(reader, timer, `The timer of ${id} is missing.`);
}

/** A running task has a lease with a holder. A lease with a holder has a timer. */
function* runningDamage(row: ExaminedRow, task: Task): Generator<Damage> {
  const { reader } = row;
  const { id } = task;
  if (!heldStatuses.includes(task.status)) return;
  const lease = readLease(reader, id);
  if (lease === undefined || lease.holder === null) {
    if (task.status !== 'running') return;
    yield row.wrong(`${id} is running but has no lease.`, (tx) => {
      const path = sessionPath(tx, task.session_id);
      if (path === undefined) return;
      const held = { task: { ...task, attempts: task.attempts - 1 }, lease };
      changeHeld(tx, { task, lease }, returnTask(held, 'The lease was lost.', tx.nowMs), {
        projectId: path.project.id,
        ownerId: path.workspace.owner_id,
      });
    });
    return;
  }
  yield* inspectTimer(
    reader,
    { atMs: lease.timerAtMs, kind: leaseTimer, reference: Buffer.from(id) },
    `The timer of the lease of ${id} is missing.`,
  );
}

function* indexDamage(row: ExaminedRow): Generator<Damage> {
  const { reader } = row;
  const id = row.value.toString();
  const expected = expectedRows(reader, id);
  if (expected === undefined && isBeingPurged(reader, id)) return;
  yield* inspectIndexRow(row, expected, entityOf(id) ?? 'record');
}

function* leaseDamage(row: ExaminedRow): Generator<Damage> {
  const { reader } = row;
  const id = idOfKey(row.key);
  if (readRecord(reader, 'task', id) === undefined && !isBeingPurged(reader, id))
    yield row.dangling(`A lease belongs to ${id}, which does not exist.`);
}

/** A session with a time limit has a timer that ends it. Activity changes the limit, but not the timer. */
function* sessionDamage(timers: SharedTimers, row: ExaminedRow): Generator<Found> {
  const { reader } = row;
  const id = idOfKey(row.key);
  yield* sessionCounterDamage(reader, id);
  const session = readRecord(reader, 'session', id);
  const deadline = session === undefined ? undefined : sessionDeadline(session);
  if (deadline === undefined) return;
  yield* timers.inspect(
    row,
    { atMs: deadline.atMs, kind: sessionTimer, reference: Buffer.from(id) },
    `The timer that ends ${id} at its limit is missing.`,
    { orAny: true },
  );
}

const bulkKinds: ReadonlySet<string> = new Set([
  'purge',
  'dependants',
  'release',
  'reseal',
] satisfies BulkKind[]);

/** This family contains only counters, marks of bulk work and the version of the layout. */
function* noteDamage(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  const [, kind = '', entity = '', ...rest] = key.toString().split(':').map(unescapePart);
  const id = rest.join(':');
  if (kind === 'open_tasks' && (entity === 'project' || entity === 'session')) {
    if (readRecord(reader, entity, id) === undefined && !isBeingPurged(reader, id))
      yield row.dangling(`A count belongs to ${id}, which does not exist.`);
  } else if (
    kind === 'work'
      ? !bulkKinds.has(entity)
      : !['schema_version', 'last_migration', 'migrating'].includes(kind)
  ) {
    yield row.surplus(`Unknown key ${key.toString()}.`);
  }
}

function* sessionCounterDamage(reader: Reader, id: string): Generator<Found> {
  let open = 0;
  for (const status of taskStatuses.filter(isOpen))
    open += yield* sumBelow(reader, indexPrefix('task', 'status', id, status), () => 1);
  yield* counterDamage(reader, 'session', id, open);
}

function* projectCounterDamage(reader: Reader, id: string): Generator<Found> {
  const counted = yield* sumBelow(reader, indexPrefix('session', 'project', id), (session) =>
    openTasks(reader, 'session', session),
  );
  yield* counterDamage(reader, 'project', id, counted);
}

function* counterDamage(
  reader: Reader,
  entity: 'project' | 'session',
  id: string,
  counted: number,
): Generator<Damage> {
  const kept = openTasks(reader, entity, id);
  if (kept !== counted)
    yield wrongRow(
      buckets.metadata,
      openTasksKey(entity, id),
      `The count of open tasks of ${id} is ${kept}. Expected ${counted}.`,
      Buffer.from(String(counted)),
    );
}

function* workspaceCounterDamage(row: ExaminedRow): Generator<Found> {
  const { reader } = row;
  const id = idOfKey(row.key);
  const workspace = readRecord(reader, 'workspace', id);
  if (workspace === undefined) return;
  const counted = yield* sumBelow(reader, indexPrefix('project', 'workspace', id), (project) =>
    openTasks(reader, 'project', project),
  );
  if (counted !== workspace.active_tasks)
    yield row.wrong(
      `The count of active tasks of ${id} is ${workspace.active_tasks}. Expected ${counted}.`,
      (tx) => workspaceRecords.rewrite(tx, { ...workspace, active_tasks: counted }),
    );
}

/**
 * Every index row that a record must have; undefined if the record, or one of its parents, does not exist.
 */
function expectedRows(reader: Reader, id: string): IndexRow[] | undefined {
  const entity = entityOf(id);
  const record = entity === undefined ? undefined : readRecord(reader, entity, id);
  if (record === undefined) return undefined;
  if ('owner_id' in record) return workspaceRecords.rowsOf(record);
  if ('workspace_id' in record)
    return readRecord(reader, 'workspace', record.workspace_id) === undefined
      ? undefined
      : projectRecords.rowsOf(record);
  const path = sessionPath(reader, 'project_id' in record ? record.id : record.session_id);
  if (path === undefined) return undefined;
  if ('project_id' in record) return sessionRecords.rowsOf(record);
  const home = { projectId: path.project.id, ownerId: path.workspace.owner_id };
  return taskRecords.rowsOf(placedTask(reader, record, home));
}

/** Records below a record that is being purged will be removed. That is not damage. */
function isBeingPurged(reader: Reader, id: string): boolean {
  if (bulkMark(reader, 'purge', id) !== undefined) return true;
  const entity = entityOf(id);
  const record = entity === undefined ? undefined : readRecord(reader, entity, id);
  if (record === undefined || 'owner_id' in record) return false;
  if ('workspace_id' in record) return isBeingPurged(reader, record.workspace_id);
  return isBeingPurged(reader, 'project_id' in record ? record.project_id : record.session_id);
}

/** The sum over the ids that an index has under a prefix. */
function* sumBelow(
  reader: Reader,
  prefix: Buffer,
  numberOf: (id: string) => number,
): Generator<typeof turn, number> {
  let sum = 0;
  yield* eachRow(reader, buckets.indexes, prefixRange(prefix), ({ value }) => {
    sum += numberOf(value.toString());
  });
  return sum;
}
