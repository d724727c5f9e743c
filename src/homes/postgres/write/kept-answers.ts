/** Answers under an Idempotency-Key in PostgreSQL: written by the transaction that they answer. */
import type { Caller } from '../../../core/caller.js';
import { type Idempotency, checkAnswerBytes } from '../../../core/idempotency/idempotency.js';
import { type Withheld, repeatedAnswer } from '../../../core/idempotency/kept-answer.js';
import { type Usage, checkQuota, hasQuota } from '../../../datastore/quota.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { type Queryable, checkWritable, query } from '../database/connection.js';
import { lockUser } from './row-locks.js';
import type { DomainTables } from '../database/migrate.js';
import type { Work } from './work.js';

const tables = `
  CREATE TABLE kept_answers (
    -- Whose bytes the answer counts as.
    user_id text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    -- Null if only the fact is kept, for the reason in withheld.
    results json,
    withheld text CHECK (withheld IN ('secret', 'size', 'unknown')),
    size_bytes integer NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, key),
    CHECK ((results IS NULL) <> (withheld IS NULL))
  );
  CREATE INDEX kept_answers_expiry ON kept_answers (expires_at)`;

export const answerTables: DomainTables = {
  domain: 'answers',
  about: 'the table kept_answers',
  migrations: [tables],
};

/** Two requests with one key wait for each other here. */
export async function lockAnswer(work: Work, idempotency: Idempotency | null | undefined): Promise<void> {
  if (idempotency === null || idempotency === undefined) return;
  await work.rows(lockKeySql('answer'), [keyOf(idempotency)]);
}

/** The answer stored under the key, or undefined. Throws if the key was used with a different request. */
export async function findAnswer(
  sql: Queryable,
  { user }: Caller,
  idempotency: Idempotency | null | undefined,
): Promise<unknown[] | undefined> {
  if (idempotency === null || idempotency === undefined) return undefined;
  const [kept] = await query<{ fingerprint: string; results: string | null; withheld: Withheld | null }>(
    sql,
    `SELECT fingerprint, results, withheld FROM kept_answers WHERE user_id = $1 AND key = $2
      AND expires_at > clock_timestamp()`,
    [user, keyOf(idempotency)],
  );
  if (kept === undefined) return undefined;
  const { fingerprint, results, withheld } = kept;
  return repeatedAnswer(
    {
      fingerprint,
      // `putAnswer` wrote a list.
      ...(results !== null && { results: JSON.parse(results) as unknown[] }),
      ...(withheld !== null && { withheld }),
    },
    idempotency,
  );
}

/** What a user has in documents. */
export type DocumentsOf = (sql: Queryable, user: string) => Promise<Usage>;

/** Documents that are kept elsewhere are counted there, without the answers here. */
const documentsElsewhere: DocumentsOf = async () => ({ documents: 0, sizeBytes: 0, namespaces: 0 });

/** Keeps the answer. Throws if the answer is too large or exceeds the quota, which undoes the whole write. */
export async function keepAnswer(
  work: Work,
  caller: Caller,
  idempotency: Idempotency | null | undefined,
  results: readonly unknown[],
  documentsOf: DocumentsOf,
): Promise<void> {
  if (idempotency === null || idempotency === undefined) return;
  const answer = idempotency.holdsSecret === true ? 'secret' : results;
  await putAnswer(work, caller, idempotency, answer, documentsOf);
}

/** More than the answer of a step with an effect outside the database takes: an id, a time and a room. */
const smallAnswerBytes = 200;

/** Refuses early what `keepAnswer` would refuse: called before a change that a rollback cannot undo. */
export async function reserveAnswer(work: Work, { user }: Caller, documentsOf?: DocumentsOf): Promise<void> {
  await checkWritable(work.sql);
  if (hasQuota(work.limits))
    await checkAnswerQuota(work, user, smallAnswerBytes, documentsOf ?? documentsElsewhere);
}

/** Notes that a request begins whose effects are in a store beside the home. */
export function beginAnswer(work: Work, caller: Caller, idempotency: Idempotency): Promise<void> {
  return putAnswer(work, caller, idempotency, 'unknown');
}

/**
 * Keeps the answer to a request that a store has carried out. The write cannot be undone, so of a large answer only the
 * fact is kept, and no quota refuses it.
 */
export function endAnswer(
  work: Work,
  caller: Pick<Caller, 'user'>,
  idempotency: Idempotency,
  results: readonly unknown[],
): void {
  const isLarge = Buffer.byteLength(JSON.stringify(results)) > work.limits.idempotencyAnswerBytesMax;
  sendAnswer(work, caller, idempotency, isLarge ? 'size' : results);
}

/** Removes the answer. The key is free again. */
export async function dropAnswer(sql: Queryable, { user }: Caller, idempotency: Idempotency): Promise<void> {
  await query(sql, 'DELETE FROM kept_answers WHERE user_id = $1 AND key = $2', [user, keyOf(idempotency)]);
}

async function putAnswer(
  work: Work,
  caller: Pick<Caller, 'user'>,
  idempotency: Idempotency,
  answer: readonly unknown[] | Withheld,
  documentsOf: DocumentsOf = documentsElsewhere,
): Promise<void> {
  const sizeBytes = typeof answer === 'string' ? 0 : Buffer.byteLength(JSON.stringify(answer));
  checkAnswerBytes(sizeBytes, work.limits);
  if (hasQuota(work.limits)) await checkAnswerQuota(work, caller.user, sizeBytes, documentsOf);
  sendAnswer(work, caller, idempotency, answer);
}

function sendAnswer(
  work: Work,
  { user }: Pick<Caller, 'user'>,
  idempotency: Idempotency,
  answer: readonly unknown[] | Withheld,
): void {
  const [results, withheld] =
    typeof answer === 'string' ? ([null, answer] as const) : ([JSON.stringify(answer), null] as const);
  const sizeBytes = Buffer.byteLength(results ?? '');
  work.send(
    `INSERT INTO kept_answers (user_id, key, fingerprint, results, withheld, size_bytes, expires_at)
      VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7 * interval '1 second')
      ON CONFLICT (user_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, results = excluded.results,
        withheld = excluded.withheld, size_bytes = excluded.size_bytes, expires_at = excluded.expires_at`,
    [user, keyOf(idempotency), idempotency.fingerprint, results, withheld, sizeBytes, idempotency.seconds],
  );
}

async function checkAnswerQuota(
  { sql: tx, limits }: Work,
  user: string,
  sizeBytes: number,
  documentsOf: DocumentsOf,
): Promise<void> {
  await lockUser(tx, user);
  const before = await wholeUsage(tx, user, documentsOf);
  checkQuota(before, { ...before, sizeBytes: before.sizeBytes + sizeBytes }, limits);
}

/** Documents and kept answers of a user. */
export async function wholeUsage(sql: Queryable, user: string, documentsOf: DocumentsOf): Promise<Usage> {
  const documents = await documentsOf(sql, user);
  return { ...documents, sizeBytes: documents.sizeBytes + (await keptBytes(sql, user)) };
}

/** Bytes of all answers that are kept for a user. */
async function keptBytes(sql: Queryable, user: string): Promise<number> {
  const [kept] = await query<{ bytes: string }>(
    sql,
    `SELECT coalesce(sum(size_bytes), 0) AS bytes FROM kept_answers WHERE user_id = $1
      AND expires_at > clock_timestamp()`,
    [user],
  );
  return Number(kept?.bytes ?? 0);
}

function keyOf({ scope, key }: Idempotency): string {
  return JSON.stringify([scope, key]);
}
