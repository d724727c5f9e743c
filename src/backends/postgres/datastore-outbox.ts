/** Changes of documents on their way to the feed: written in the statement or transaction that makes them, carried after it. */
import type { TransactionSql } from 'postgres';
import { documentDeleted, documentImported, documentSet, namespaceCleared } from '../../datastore/changes.js';
import type { OutboxGate } from '../../datastore/port.js';
import { StoaError } from '../../errors.js';
import type { Change } from '../../kernel/transaction.js';
import { type PostgresSql, query } from './connection.js';

export const outboxMigration = `
  CREATE TABLE agent_data_store_outbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The feed that it is meant for: that of the server which made the change.
    feed text NOT NULL,
    commit xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL CHECK (kind IN ('set', 'imported', 'deleted', 'expired', 'cleared')),
    "userId" text NOT NULL,
    namespace text NOT NULL,
    -- Null for a clear.
    key text,
    version bigint,
    -- Of a clear: how many documents went, and between which keys.
    deleted bigint,
    after text,
    through text
  );
  CREATE INDEX agent_data_store_outbox_feed ON agent_data_store_outbox (feed, number)`;

interface OutboxRow {
  number: string;
  commit: string;
  kind: Kind;
  userId: string;
  namespace: string;
  key: string | null;
  version: string | null;
  deleted: string | null;
  after: string | null;
  through: string | null;
}

export type Kind = 'set' | 'imported' | 'deleted' | 'expired' | 'cleared';

/** A statement that answers `"userId", namespace, key, version` of what it changed, as one that tells the feed of it too. */
export function telling(statement: string, kind: Kind, feedParameter: number): string {
  return `WITH changed AS (${statement})
    INSERT INTO agent_data_store_outbox (feed, kind, "userId", namespace, key, version)
      SELECT $${feedParameter}, '${kind}', "userId", namespace, key, version FROM changed RETURNING "userId", namespace, key, version`;
}

/** Tells of documents that a transaction has deleted. */
export async function tellDeleted(tx: TransactionSql, feed: string, user: string, namespace: string, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await query(tx, `INSERT INTO agent_data_store_outbox (feed, kind, "userId", namespace, key) SELECT $1, 'deleted', $2, $3, k FROM unnest($4::text[]) AS k`, [feed, user, namespace, keys]);
}

function changeOf({ kind, userId: user, namespace, key, version, deleted, after, through }: OutboxRow): Change {
  const scope = { user, namespace };
  if (kind === 'set') return documentSet(scope, key ?? '', Number(version));
  if (kind === 'imported') return documentImported(scope, key ?? '', Number(version));
  return kind === 'cleared' ? namespaceCleared(scope, Number(deleted), after, through) : documentDeleted(scope, key ?? '', kind === 'expired');
}

export interface DataOutboxOptions {
  sql: PostgresSql;
  gate: OutboxGate;
  onError: (error: unknown) => void;
}

/** What a crash or a lost answer left behind is looked for this often. */
const sweepMs = 1_000;
/** Carried changes leave the outbox together, so long after the first of them. */
const tidyMs = 50;
/** Rows of one look; the commits that they belong to come whole. */
const rowsMax = 1_000;

/**
 * Everything goes to the feed by way of a look into the table, and not straight from the write: what
 * comes later in the table under one key was committed later, while answers of two connections may
 * overtake each other.
 */
export class DataOutbox {
  readonly #options: DataOutboxOptions;
  /** True when it has succeeded. */
  readonly #carrying = new Map<string, Promise<boolean>>();
  /** In the feed, and still in the table. */
  #carried = new Set<string>();
  /** Looks and deletions, one at a time: no look sees what a deletion is just taking. */
  #work: Promise<unknown> = Promise.resolve();
  #nextLook: Promise<Look> | undefined;
  #sweeping: NodeJS.Timeout | undefined;
  #tidying: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: DataOutboxOptions) {
    this.#options = options;
  }

  get feed(): string {
    return this.#options.gate.feed;
  }

  /** Takes out what an earlier run has carried, then carries what it has left. */
  async start(): Promise<void> {
    this.#carried = new Set(this.#options.gate.carried());
    await this.#tidy();
    await this.empty();
    this.#sweeping = setInterval(() => void this.empty().catch(this.#options.onError), sweepMs);
    this.#sweeping.unref();
  }

  /** Resolves when all that was committed before is in the feed; what fails there is tried again by the next sweep. */
  async empty(): Promise<void> {
    for (;;) {
      this.#nextLook ??= this.#inTurn(() => {
        this.#nextLook = undefined;
        return this.#look();
      });
      const { carried, more } = await this.#nextLook;
      if (!(await carried) || !more) return;
      await this.#inTurn(() => this.#tidy());
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweeping);
    clearTimeout(this.#tidying);
    await this.#work;
    await Promise.all(this.#carrying.values());
    await this.#inTurn(() => this.#tidy()).catch(this.#options.onError);
    await this.#options.gate.close();
  }

  /** Begins to carry what is new in the table, commit by commit. */
  async #look(): Promise<Look> {
    const rows = await query<OutboxRow>(
      this.#options.sql,
      `SELECT * FROM agent_data_store_outbox WHERE feed = $1
        AND commit IN (SELECT commit FROM agent_data_store_outbox WHERE feed = $1 ORDER BY number LIMIT ${rowsMax}) ORDER BY number`,
      [this.feed],
    );
    const commits = new Map<string, OutboxRow[]>();
    for (const row of rows) {
      if (this.#carried.has(row.number) || this.#carrying.has(row.number)) continue;
      // Of two commits that share a key, the later has the highest number of both.
      const own = [...(commits.get(row.commit) ?? []), row];
      commits.delete(row.commit);
      commits.set(row.commit, own);
    }
    for (const own of commits.values()) this.#begin(own);
    const carried = Promise.all(rows.map(({ number }) => this.#carrying.get(number)));
    return { carried: carried.then((outcomes) => !outcomes.includes(false)), more: rows.length >= rowsMax };
  }

  /** A commit of the feed has one user; only an import or a sweep has more. */
  #begin(rows: readonly OutboxRow[]): void {
    for (const user of new Set(rows.map(({ userId }) => userId))) {
      const own = rows.filter(({ userId }) => userId === user);
      const carrying = this.#carry(own).finally(() => {
        for (const { number } of own) this.#carrying.delete(number);
      });
      for (const { number } of own) this.#carrying.set(number, carrying);
    }
  }

  async #carry(rows: readonly OutboxRow[]): Promise<boolean> {
    try {
      await this.#options.gate.carry(rows.map((row) => ({ number: row.number, change: changeOf(row) })));
    } catch (error) {
      this.#options.onError(error);
      // A user that the feed refuses, it refuses for good.
      if (!(error instanceof StoaError) || error.code !== 'conflict') return false;
    }
    for (const { number } of rows) this.#carried.add(number);
    if (!this.#isClosed) this.#tidying ??= setTimeout(() => this.#tidyLater(), tidyMs).unref();
    return true;
  }

  #tidyLater(): void {
    this.#tidying = undefined;
    this.#inTurn(() => this.#tidy()).catch(this.#options.onError);
  }

  async #tidy(): Promise<void> {
    const numbers = [...this.#carried];
    if (numbers.length === 0) return;
    await query(this.#options.sql, 'DELETE FROM agent_data_store_outbox WHERE feed = $1 AND number = ANY($2::text[]::bigint[])', [this.feed, numbers]);
    for (const number of numbers) this.#carried.delete(number);
    this.#options.gate.forget(numbers);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work.then(work);
    this.#work = done.catch(() => undefined);
    return done;
  }
}

interface Look {
  /** Whether all that was found got into the feed. */
  carried: Promise<boolean>;
  /** There may be more than one look holds. */
  more: boolean;
}
