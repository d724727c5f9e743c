/** What must hold between the records of workspaces, their indexes, counters and leases. */
import type { Check, Damage, Found } from '../kernel/inspect/doctor.js';
import { beyondRepair, eachRow, surplusRow, type turn, wrongRow } from '../kernel/inspect/doctor.js';
import { type Entry, prefixRange } from '../kernel/engine.js';
import type { IndexRow } from '../indexed-family.js';
import { inspectIndexRow, inspectRows } from './indexes.js';
import type { Reader } from '../kernel/transaction.js';
import { type Entity, heldStatuses, isOpen, taskStatuses } from '../../../workspaces/model.js';
import { sessionDeadline } from '../../../workspaces/sessions.js';
import { returnTask } from '../../../workspaces/tasks/tasks.js';
import { type Examined, SharedTimers, inspectTimer } from './timers.js';
import { type BulkKind, bulkKey } from '../workspaces/bulk/bulk.js';
import { projectRecords, sessionRecords, taskRecords, workspaceRecords } from '../workspaces/indexes.js';
import {
  bucketOf,
  buckets,
  entityOf,
  idOfKey,
  indexPrefix,
  recordKey,
  unescapePart,
} from '../workspaces/keys.js';
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
      inspect: (reader, { key, value }) => recordDamage(reader, entity, key, value),
    })),
    {
      family: buckets.indexes,
      inspect: (reader, entry) => indexDamage(reader, entry),
    },
    { family: buckets.leases, inspect: (reader, { key }) => leaseDamage(reader, key) },
    {
      family: buckets.sessions,
      inspect: (reader, { key }, store, pass) => sessionDamage(timers, { reader, store, pass }, idOfKey(key)),
    },
    { family: buckets.projects, inspect: (reader, { key }) => projectCounterDamage(reader, idOfKey(key)) },
    {
      family: buckets.workspaces,
      inspect: (reader, { key }) => workspaceCounterDamage(reader, idOfKey(key)),
    },
    { family: buckets.metadata, inspect: (reader, { key }) => noteDamage(reader, key) },
  ];
}

function* recordDamage(reader: Reader, entity: Entity, key: Buffer, value: Buffer): Generator<Damage> {
  const id = idOfKey(key);
  if (!isReadable(entity, value, id)) {
    yield beyondRepair(bucketOf[entity], key, 'unreadable', `The record of ${id} cannot be read.`);
    return;
  }
  const expected = expectedRows(reader, id);
  if (expected === undefined) {
    if (!isBeingPurged(reader, id))
      yield beyondRepair(bucketOf[entity], key, 'missing', `The parent record of ${id} does not exist.`);
    return;
  }
  yield* inspectRows(reader, expected, id);
  if (entity === 'task') yield* runningDamage(reader, id);
  const timer = entity === 'task' ? timerOfTask(decodeRecord('task', value)) : undefined;
  if (timer !== undefined) yield* inspectTimer(reader, timer, `The timer of ${id} is missing.`);
}

/** A running task has a lease with a holder. A lease with a holder has a timer. */
function* runningDamage(reader: Reader, id: string): Generator<Damage> {
  const task = readRecord(reader, 'task', id);
  if (task === undefined || !heldStatuses.includes(task.status)) return;
  const lease = readLease(reader, id);
  if (lease === undefined || lease.holder === null) {
    if (task.status !== 'running') return;
    yield wrongRow(buckets.tasks, recordKey('task', id), `${id} is running but has no lease.`, (tx) => {
      const path = sessionPath(tx, task.session_id);
      const held = { task, lease };
      if (path !== undefined)
        changeHeld(
          tx,
          held,
          returnTask(
            { ...held, task: { ...task, attempts: task.attempts - 1 } },
            'The lease was lost.',
            tx.nowMs,
          ),
          { projectId: path.project.id, ownerId: path.workspace.owner_id },
        );
    });
    return;
  }
  yield* inspectTimer(
    reader,
    { atMs: lease.timerAtMs, kind: leaseTimer, reference: Buffer.from(id) },
    `The timer of the lease of ${id} is missing.`,
  );
}

function* indexDamage(reader: Reader, entry: Entry): Generator<Damage> {
  const id = entry.value.toString();
  const expected = expectedRows(reader, id);
  if (expected === undefined && isBeingPurged(reader, id)) return;
  yield* inspectIndexRow(buckets.indexes, entry, expected, entityOf(id) ?? 'record');
}

function* leaseDamage(reader: Reader, key: Buffer): Generator<Damage> {
  const id = idOfKey(key);
  if (readRecord(reader, 'task', id) === undefined && !isBeingPurged(reader, id))
    yield surplusRow(buckets.leases, key, 'dangling', `A lease belongs to ${id}, which does not exist.`);
}

/** A session with a time limit has a timer that ends it. Activity changes the limit, but not the timer. */
function* sessionDamage(timers: SharedTimers, examined: Examined, id: string): Generator<Found> {
  const { reader } = examined;
  yield* sessionCounterDamage(reader, id);
  const session = readRecord(reader, 'session', id);
  const deadline = session === undefined ? undefined : sessionDeadline(session);
  if (deadline === undefined) return;
  yield* timers.inspect(
    examined,
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
function* noteDamage(reader: Reader, key: Buffer): Generator<Damage> {
  const [, kind = '', entity = '', ...rest] = key.toString().split(':').map(unescapePart);
  const id = rest.join(':');
  if (kind === 'open_tasks' && (entity === 'project' || entity === 'session')) {
    if (readRecord(reader, entity, id) === undefined && !isBeingPurged(reader, id))
      yield surplusRow(buckets.metadata, key, 'dangling', `A count belongs to ${id}, which does not exist.`);
  } else if (
    kind === 'work'
      ? !bulkKinds.has(entity)
      : !['schema_version', 'last_migration', 'migrating'].includes(kind)
  ) {
    yield surplusRow(buckets.metadata, key, 'wrong', `Unknown key ${key.toString()}.`);
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
      (tx) => tx.put(buckets.metadata, openTasksKey(entity, id), Buffer.from(String(counted))),
    );
}

function* workspaceCounterDamage(reader: Reader, id: string): Generator<Found> {
  const workspace = readRecord(reader, 'workspace', id);
  if (workspace === undefined) return;
  const counted = yield* sumBelow(reader, indexPrefix('project', 'workspace', id), (project) =>
    openTasks(reader, 'project', project),
  );
  if (counted === workspace.active_tasks) return;
  yield wrongRow(
    buckets.workspaces,
    recordKey('workspace', id),
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
  if (reader.get(buckets.metadata, bulkKey('purge', id)) !== undefined) return true;
  const entity = entityOf(id);
  const record = entity === undefined ? undefined : readRecord(reader, entity, id);
  if (record === undefined || 'owner_id' in record) return false;
  if ('workspace_id' in record) return isBeingPurged(reader, record.workspace_id);
  return isBeingPurged(reader, 'project_id' in record ? record.project_id : record.session_id);
}

function isReadable(entity: Entity, value: Buffer, id: string): boolean {
  try {
    return decodeRecord(entity, value).id === id;
  } catch {
    return false;
  }
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
