/** What a commit in PostgreSQL holds still while it runs, and whether its checks hold. */
import { createHash } from 'node:crypto';
import { CheckFailed } from '../../commit/port.js';
import type { Check, Operation } from '../../commit/schemas.js';
import { compareCodePoints } from '../../datastore/code-point-order.js';
import { isLive } from '../../datastore/merge-document.js';
import { hasQuota } from '../../datastore/quota.js';
import { versionFailure } from '../../core/version-failure.js';
import { StoaError } from '../../errors.js';
import type { Caller } from '../../core/caller.js';
import type { PostgresStep } from '../../homes/postgres/step.js';
import type { Work } from '../../homes/postgres/work.js';
import { ownerOf } from '../../workspaces/authorise.js';
import { type DocumentRow, columnsRead, recordOf } from './datastore-sql.js';
import type { PostgresWorkspaces } from './workspaces.js';

/** A document that a commit looks at or writes. */
interface Name {
  namespace: string;
  key: string;
}

export interface CheckContext {
  work: Work;
  caller: Caller;
  /** The clock of documents. */
  nowMs: number;
  /** Null where workspaces are not in this database. */
  workspaces: PostgresWorkspaces | null;
}

/**
 * Locks everything that the commit names, in one order for all: two commits that meet wait for
 * each other here, once, and never in a ring. Then every check is made; the first that does not
 * hold is thrown.
 */
export async function lockAndCheck(
  context: CheckContext,
  checks: readonly Check[],
  operations: readonly Operation[],
): Promise<void> {
  const names = documentsIn(checks, operations);
  const tasks = tasksIn(checks, operations);
  await lockNames(context, names, tasks);
  const versions = await lockDocuments(context, names);
  await lockTasks(context, tasks);
  for (const [index, check] of checks.entries()) {
    const failure = await failureOf(context, versions, check);
    if (failure !== undefined) throw new CheckFailed(index, failure);
  }
}

/** Names share this many locks: a database holds a few thousand for all its connections. */
const lockBuckets = 256;

/** A document that is not there has no row to lock, so commits lock names, there or not. */
async function lockNames(
  { work, caller }: CheckContext,
  names: readonly Name[],
  tasks: readonly string[],
): Promise<void> {
  const texts = [
    ...names.map(({ namespace, key }) => JSON.stringify([caller.user, namespace, key])),
    ...tasks,
  ];
  const buckets = [...new Set(texts.map(bucketOf))].toSorted((a, b) => a - b);
  if (buckets.length > 0)
    await work.rows(
      "SELECT pg_advisory_xact_lock(hashtext('stoa_commit'), bucket) FROM unnest($1::int[]) AS bucket",
      [buckets.map(String)],
    );
  // Writes alone take the user's lock before their rows, so it comes before rows here too.
  if (names.length > 0 && hasQuota(work.limits))
    await work.rows('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [caller.user]);
}

function bucketOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) % lockBuckets;
}

/** The current version of each document under lock; those that are missing or expired have none. */
async function lockDocuments(
  { work, caller, nowMs }: CheckContext,
  names: readonly Name[],
): Promise<Map<string, number>> {
  if (names.length === 0) return new Map();
  const ordered = names.toSorted(
    (a, b) => compareCodePoints(a.namespace, b.namespace) || compareCodePoints(a.key, b.key),
  );
  const rows = await work.rows<DocumentRow>(
    `SELECT ${columnsRead} FROM unnest($2::text[], $3::text[]) AS v (n, k) CROSS JOIN LATERAL (
        SELECT * FROM agent_data_store WHERE "userId" = $1 AND namespace = v.n AND key = v.k LIMIT 1 FOR UPDATE) d`,
    [caller.user, ordered.map(({ namespace }) => namespace), ordered.map(({ key }) => key)],
  );
  return new Map(
    rows
      .map(recordOf)
      .filter((record) => isLive(record, nowMs))
      .map((record) => [nameOf(record), record.version]),
  );
}

async function lockTasks({ work }: CheckContext, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await work.rows('SELECT id FROM workspaces.tasks WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE', [
      ids,
    ]);
}

async function failureOf(
  context: CheckContext,
  versions: ReadonlyMap<string, number>,
  check: Check,
): Promise<StoaError | undefined> {
  switch (check.check) {
    case 'data': {
      const current = versions.get(nameOf(check)) ?? 0;
      return current === (check.version ?? 0)
        ? undefined
        : versionFailure(`The document "${check.key}" in "${check.namespace}"`, current, check.version ?? 0);
    }
    case 'task':
      return failureIn(context, (port) =>
        port.requireTaskVersion(ownerOf(context.caller), check.task_id, check.version),
      );
    case 'claim':
      return failureIn(context, (port) =>
        port.requireClaim(ownerOf(context.caller), check.task_id, check.fence),
      );
    case 'agent':
    case 'lease':
      throw new StoaError('internal', 'The registry is not kept in PostgreSQL.');
  }
}

async function failureIn(
  { work, workspaces }: CheckContext,
  check: (port: PostgresWorkspaces) => PostgresStep<void>,
): Promise<StoaError | undefined> {
  if (workspaces === null)
    throw new StoaError('internal', 'A commit checks a task where workspaces are not kept.');
  try {
    await check(workspaces).run(work);
    return undefined;
  } catch (error) {
    if (error instanceof StoaError && (error.code === 'version_conflict' || error.code === 'fenced'))
      return error;
    throw error;
  }
}

function documentsIn(checks: readonly Check[], operations: readonly Operation[]): Name[] {
  const names = [...checks, ...operations].flatMap((step) =>
    'key' in step && 'namespace' in step ? [{ namespace: step.namespace, key: step.key }] : [],
  );
  return [...new Map(names.map((name) => [nameOf(name), name])).values()];
}

function tasksIn(checks: readonly Check[], operations: readonly Operation[]): string[] {
  return [
    ...new Set([...checks, ...operations].flatMap((step) => ('task_id' in step ? [step.task_id] : []))),
  ].toSorted();
}

function nameOf({ namespace, key }: Name): string {
  return JSON.stringify([namespace, key]);
}
