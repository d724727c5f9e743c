/** Writes of the data store that need a look at what is there: versions, metadata, quotas, changes. */
import type { TransactionSql } from 'postgres';
import { documentDeleted, documentImported, documentSet } from '../../../datastore/changes.js';
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import {
  checkVersion,
  isLive,
  mergeDocument,
  requireVersion,
  resultOf,
  sizeOf,
} from '../../../datastore/documents/merge-document.js';
import type { DocumentRecord, Scope } from '../../../datastore/model.js';
import type { BatchResult, Decide, WriteBatch } from '../../../datastore/port.js';
import { checkQuota, hasQuota, type Usage } from '../../../datastore/quota.js';
import { wholeUsage } from '../kept-answers.js';
import { lockUser } from '../locks.js';
import type { Work } from '../work.js';
import type { Limits } from '../../../core/settings/limits.js';
import { TryAgain, query } from '../connection.js';
import { noteAgents } from './agents.js';
import { documentsIn, documentsOf } from './counts.js';
import {
  type DocumentRow,
  columnsRead,
  columnsWritten,
  columnsWrittenCount,
  documentParameters,
  recordOf,
  replaceAll,
  valuesList,
} from './sql.js';

/** A batch, or one document and what to make of it. */
export type TransactionWork = WriteBatch | { key: string; decide: Decide };

/**
 * Locks the rows that exist, merges with the domain's own rules, and writes. A row that did not
 * exist cannot be locked: when somebody else made it meanwhile, the transaction begins again.
 */
export async function writeDocuments(work: Work, scope: Scope, asked: TransactionWork): Promise<BatchResult> {
  const { sql: tx, nowMs: at, limits } = work;
  const isBatch = 'sets' in asked;
  const keys = isBatch ? [...asked.sets, ...asked.deletes].map(({ key }) => key) : [asked.key];
  if (hasQuota(limits)) await lockUser(tx, scope.user);
  const locked = await lockedDocuments(tx, scope, keys);
  const current = (key: string): DocumentRecord | undefined => {
    const record = locked.get(key)?.record;
    return record !== undefined && isLive(record, at) ? record : undefined;
  };
  const writes = isBatch ? asked.sets : [asked.decide(current(asked.key))];
  const merged = writes.map((write) => ({
    write,
    record: mergeDocument(scope, current(write.key), write, at, limits),
  }));
  const removals = isBatch ? asked.deletes : [];
  for (const { key, ifVersion } of removals) checkVersion(key, current(key)?.version ?? 0, ifVersion);
  if (hasQuota(limits))
    await checkUserQuota(
      tx,
      scope,
      locked,
      merged.map(({ record }) => record),
      removals.map(({ key }) => key),
      limits,
    );
  // What has expired makes room for what is new under the same key.
  const gone = [
    ...removals.map(({ key }) => key),
    ...writes.map(({ key }) => key).filter((key) => current(key) === undefined),
  ];
  await deleteRows(
    tx,
    gone.flatMap((key) => locked.get(key)?.place ?? []),
  );
  await putRecords(tx, merged);
  await noteAgents(
    tx,
    writes.flatMap(({ agent }) => (agent === null ? [] : [{ scope, agent }])),
  );
  const deletes = removals.map(({ key }) => current(key) !== undefined);
  work.announce(
    ...merged.map(({ record }) => documentSet(scope, record.key, record.version)),
    ...removals.flatMap(({ key }, index) => (deletes[index] === true ? [documentDeleted(scope, key)] : [])),
  );
  return { sets: merged.map(({ record }) => resultOf(record)), deletes };
}

/** A document under lock, and where its row is. */
interface Locked {
  record: DocumentRecord;
  place: string;
}

async function lockedDocuments(
  tx: TransactionSql,
  scope: Scope,
  keys: readonly string[],
): Promise<Map<string, Locked>> {
  if (keys.length === 0) return new Map();
  // LATERAL with LIMIT makes it one look into the index a key, whatever the statistics say. The keys
  // are in order, so that two transactions lock in the same one.
  const rows = await query<DocumentRow & { place: string }>(
    tx,
    `SELECT d.place, ${columnsRead} FROM unnest($3::text[]) AS v (k) CROSS JOIN LATERAL (
        SELECT ctid::text AS place, * FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key = v.k LIMIT 1 FOR UPDATE) d`,
    [scope.user, scope.namespace, keys.toSorted(compareCodePoints)],
  );
  return new Map(rows.map((row) => [row.key, { record: recordOf(row), place: row.place }]));
}

/** Rows under lock stay where they are. */
async function deleteRows(tx: TransactionSql, places: readonly string[]): Promise<void> {
  if (places.length > 0)
    await query(tx, 'DELETE FROM agent_data_store WHERE ctid = ANY($1::text[]::tid[])', [places]);
}

/** A record, and the agent that writes it. */
interface Merged {
  readonly record: DocumentRecord;
  readonly write: { readonly agent: string | null };
}

async function putRecords(tx: TransactionSql, merged: readonly Merged[]): Promise<void> {
  if (merged.length === 0) return;
  const parameters = merged.flatMap(({ record, write }) => documentParameters(record, write.agent));
  const rows = await query(
    tx,
    insertStatement(merged.length, 'WHERE d.version = excluded.version - 1'),
    parameters,
  );
  if (rows.length < merged.length) throw new TryAgain();
}

function insertStatement(rows: number, condition: string): string {
  return `INSERT INTO agent_data_store AS d (${columnsWritten}) VALUES ${valuesList(rows, Array<string>(columnsWrittenCount).fill(''))}
    ON CONFLICT ("userId", namespace, key) DO UPDATE SET ${replaceAll} ${condition} RETURNING 1`;
}

const restoreRowsMax = 500;

/** Writes documents exactly as they are, over what is there: all of them or, where a quota is in the way, none. */
export async function restoreDocuments(
  work: Work,
  documents: readonly DocumentRecord[],
  { isCounted }: { isCounted: boolean },
): Promise<void> {
  const { sql: tx, limits } = work;
  // In one order, so that two of them do not wait for each other.
  const ordered = documents.toSorted((a, b) => compareCodePoints(nameOf(a), nameOf(b)));
  const users = [...new Set(ordered.map(({ userId }) => userId))];
  const before = new Map<string, Usage>();
  for (const user of hasQuota(limits) && !isCounted ? users : []) {
    await lockUser(tx, user);
    before.set(user, await wholeUsage(tx, user, documentsOf));
  }
  for (let start = 0; start < ordered.length; start += restoreRowsMax) {
    const rows = ordered.slice(start, start + restoreRowsMax);
    await query(
      tx,
      insertStatement(rows.length, ''),
      rows.flatMap((record) => documentParameters(record, null)),
    );
  }
  for (const [user, usage] of before) checkQuota(usage, await wholeUsage(tx, user, documentsOf), limits);
  await noteAgents(
    tx,
    ordered.flatMap(({ userId: user, namespace, createdByAgent, lastAccessedByAgent }) =>
      [createdByAgent, lastAccessedByAgent].flatMap((agent) =>
        agent === null ? [] : [{ scope: { user, namespace }, agent }],
      ),
    ),
  );
  work.announce(
    ...ordered.map(({ userId: user, namespace, key, version }) =>
      documentImported({ user, namespace }, key, version),
    ),
  );
}

/** Locks the document, so that the version holds until the commit; a missing one is locked by its name. */
export async function requireDocumentVersion(
  { sql: tx, nowMs }: Work,
  scope: Scope,
  key: string,
  version: number,
): Promise<void> {
  const record = (await lockedDocuments(tx, scope, [key])).get(key)?.record;
  const current = record !== undefined && isLive(record, nowMs) ? record.version : 0;
  requireVersion(scope, key, current, version);
}

/** Names have no control characters, so a line break cannot stand inside one. */
function nameOf({ userId, namespace, key }: DocumentRecord): string {
  return `${userId}\n${namespace}\n${key}`;
}

/** The advisory lock of the user makes the sum hold until the transaction ends. */
async function checkUserQuota(
  tx: TransactionSql,
  scope: Scope,
  locked: ReadonlyMap<string, Locked>,
  records: readonly DocumentRecord[],
  removed: readonly string[],
  limits: Limits,
): Promise<void> {
  const before = await wholeUsage(tx, scope.user, documentsOf);
  const storedBytes = (key: string): number => sizeOf(locked.get(key)?.record ?? { valueJson: '' });
  const gone = removed.filter((key) => locked.has(key));
  const documents = records.filter(({ key }) => !locked.has(key)).length - gone.length;
  const inNamespace = await documentsIn(tx, scope);
  const after: Usage = {
    documents: before.documents + documents,
    sizeBytes:
      before.sizeBytes +
      records.reduce((sum, record) => sum + sizeOf(record) - storedBytes(record.key), 0) -
      gone.reduce((sum, key) => sum + storedBytes(key), 0),
    namespaces: before.namespaces + (inNamespace + documents > 0 ? 1 : 0) - (inNamespace > 0 ? 1 : 0),
  };
  checkQuota(before, after, limits);
}
