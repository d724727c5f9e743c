/**
 * Writes of documents that have to read the stored document first: for its version, metadata or the quota.
 */
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
import { wholeUsage } from '../write/kept-answers.js';
import { lockUser } from '../write/row-locks.js';
import type { Work } from '../write/work.js';
import type { Limits } from '../../../core/settings/limits.js';
import { shareLockKeysSql, shareLocksCte } from '../database/advisory-locks.js';
import { query } from '../database/connection.js';
import { keepAgents } from './agents.js';
import { documentsIn, documentsOf } from './counts.js';
import { keepMissing } from './missing.js';
import { namespaceName, namespaceNameSql } from './namespace-name.js';
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

/** A batch, or one document with the function that decides its new content. */
export type TransactionWork = WriteBatch | { key: string; decide: Decide };

/**
 * Locks the existing rows, merges with the rules of the domain, and writes. A missing row cannot be locked:
 * if another write inserts it in between, the transaction starts again.
 */
export async function writeDocuments(work: Work, scope: Scope, input: TransactionWork): Promise<BatchResult> {
  const { sql: tx, nowMs: at, limits } = work;
  const isBatch = 'sets' in input;
  const keys = isBatch ? [...input.sets, ...input.deletes].map(({ key }) => key) : [input.key];
  if (hasQuota(limits)) await lockUser(tx, scope.user);
  const locked = await lockedDocuments(work, scope, keys);
  const current = (key: string): DocumentRecord | undefined => {
    const record = locked.get(key)?.record;
    return record !== undefined && isLive(record, at) ? record : undefined;
  };
  const writes = isBatch ? input.sets : [input.decide(current(input.key))];
  const merged = writes.map((write) => mergeDocument(scope, current(write.key), write, at, limits));
  const removals = isBatch ? input.deletes : [];
  for (const { key, ifVersion } of removals) checkVersion(key, current(key)?.version ?? 0, ifVersion);
  if (hasQuota(limits))
    await checkUserQuota(
      tx,
      scope,
      locked,
      merged,
      removals.map(({ key }) => key),
      limits,
    );
  // An expired row is deleted before its key is written again.
  const removedKeys = [
    ...removals.map(({ key }) => key),
    ...writes.map(({ key }) => key).filter((key) => current(key) === undefined),
  ];
  deleteRows(
    work,
    removedKeys.flatMap((key) => locked.get(key)?.ctid ?? []),
  );
  putRecords(work, merged);
  keepMissing(
    work,
    scope,
    removals.flatMap(({ key }) => (locked.has(key) ? [] : [key])),
  );
  keepAgents(
    work,
    writes.flatMap(({ agent }) => (agent === null ? [] : [{ scope, agent }])),
  );
  const deletes = removals.map(({ key }) => current(key) !== undefined);
  work.announce(
    ...merged.map(({ key, version }) => documentSet(scope, key, version)),
    ...removals.flatMap(({ key }, index) => (deletes[index] === true ? [documentDeleted(scope, key)] : [])),
  );
  return { sets: merged.map(resultOf), deletes };
}

/** A locked document and the physical location of its row. */
interface Locked {
  record: DocumentRecord;
  ctid: string;
}

/** The documents that a step has read ahead, by their names. */
class DocumentsAhead extends Map<string, Promise<Map<string, Locked>>> {}

/** Reads and locks the documents now, for `lockedDocuments` with the same keys. */
export function readDocumentsAhead(work: Work, scope: Scope, keys: readonly string[]): void {
  const reading = lockDocuments(work.sql, scope, keys);
  // Steps run in another order: the first one to fail may only report that this statement had failed.
  work.follow(reading);
  work.part(aheadOf).set(namesOf(scope, keys), reading);
}

function lockedDocuments(work: Work, scope: Scope, keys: readonly string[]): Promise<Map<string, Locked>> {
  const ahead = work.part(aheadOf);
  const names = namesOf(scope, keys);
  const reading = ahead.get(names) ?? lockDocuments(work.sql, scope, keys);
  ahead.delete(names);
  return reading;
}

function aheadOf(): DocumentsAhead {
  return new DocumentsAhead();
}

function namesOf({ user, namespace }: Scope, keys: readonly string[]): string {
  return [user, namespace, ...keys].join('\n');
}

async function lockDocuments(
  tx: TransactionSql,
  scope: Scope,
  keys: readonly string[],
): Promise<Map<string, Locked>> {
  if (keys.length === 0) return new Map();
  // LATERAL with LIMIT forces one index lookup per key, whatever the statistics say. The keys are sorted, so
  // that all transactions lock rows in the same order.
  const rows = await query<DocumentRow & { rowid: string }>(
    tx,
    `WITH ${shareLocksCte('held', 'namespaceDocuments', namespaceNameSql('$1::text', '$2::text'), '(VALUES (1)) AS one')}
      SELECT d.rowid, ${columnsRead} FROM held CROSS JOIN LATERAL
        unnest(CASE WHEN held.locks > 0 THEN $3::text[] END) AS v (k) CROSS JOIN LATERAL (
        SELECT ctid::text AS rowid, * FROM agent_data_store
          WHERE "userId" = $1 AND namespace = $2 AND key = v.k LIMIT 1 FOR UPDATE) d`,
    [scope.user, scope.namespace, keys.toSorted(compareCodePoints)],
  );
  return new Map(rows.map((row) => [row.key, { record: recordOf(row), ctid: row.rowid }]));
}

/** The rows are locked, so their locations cannot change. */
function deleteRows(work: Work, ctids: readonly string[]): void {
  if (ctids.length > 0)
    work.send('DELETE FROM agent_data_store WHERE ctid = ANY($1::text[]::tid[])', [ctids]);
}

/**
 * The statement fails as a conflict, and the write runs again, if another transaction created a row in
 * between.
 */
function putRecords(work: Work, records: readonly DocumentRecord[]): void {
  if (records.length === 0) return;
  const insert = insertStatement(records.length, 'WHERE d.version = excluded.version - 1');
  work.send(
    `WITH written AS (${insert}) SELECT agent_data_store_require_rows(count(*), ${records.length})
      FROM written`,
    records.flatMap(documentParameters),
  );
}

function insertStatement(rows: number, condition: string): string {
  const untyped = Array<string>(columnsWrittenCount).fill('');
  return `INSERT INTO agent_data_store AS d (${columnsWritten}) VALUES ${valuesList(rows, untyped)}
    ON CONFLICT ("userId", namespace, key) DO UPDATE SET ${replaceAll} ${condition} RETURNING 1`;
}

const restoreRowsMax = 500;

/** Writes documents unchanged and replaces stored ones. If a quota is exceeded, none is written. */
export async function restoreDocuments(
  work: Work,
  documents: readonly DocumentRecord[],
  { isCounted }: { isCounted: boolean },
): Promise<void> {
  const { sql: tx, limits } = work;
  // A fixed order, so that two restores cannot deadlock.
  const ordered = documents.toSorted((a, b) => compareCodePoints(nameOf(a), nameOf(b)));
  const users = [...new Set(ordered.map(({ userId }) => userId))];
  const before = new Map<string, Usage>();
  for (const user of hasQuota(limits) && !isCounted ? users : []) {
    await lockUser(tx, user);
    before.set(user, await wholeUsage(tx, user, documentsOf));
  }
  const namespaces = ordered.map(({ userId: user, namespace }) => namespaceName({ user, namespace }));
  await work.rows(shareLockKeysSql('namespaceDocuments'), [[...new Set(namespaces)]]);
  for (let start = 0; start < ordered.length; start += restoreRowsMax) {
    const rows = ordered.slice(start, start + restoreRowsMax);
    await query(tx, insertStatement(rows.length, ''), rows.flatMap(documentParameters));
  }
  for (const [user, usage] of before) checkQuota(usage, await wholeUsage(tx, user, documentsOf), limits);
  keepAgents(
    work,
    ordered.flatMap(({ userId: user, namespace, createdByAgent, updatedByAgent, lastAccessedByAgent }) =>
      [createdByAgent, updatedByAgent, lastAccessedByAgent].flatMap((agent) =>
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

/** Locks the document, so that its version stays the same until the commit. A missing one stays missing. */
export async function requireDocumentVersion(
  work: Work,
  scope: Scope,
  key: string,
  version: number,
): Promise<void> {
  const record = (await lockedDocuments(work, scope, [key])).get(key)?.record;
  const current = record !== undefined && isLive(record, work.nowMs) ? record.version : 0;
  requireVersion(scope, key, current, version);
  if (record === undefined) keepMissing(work, scope, [key]);
}

/** Names cannot contain control characters, so a line break separates them safely. */
function nameOf({ userId, namespace, key }: DocumentRecord): string {
  return `${userId}\n${namespace}\n${key}`;
}

/** The caller holds the user's advisory lock, so the usage cannot change until the transaction ends. */
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
