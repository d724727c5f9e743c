/** Changes of documents on their way to the feed: written in the statement or transaction that makes them, carried after it. */
import type { TransactionSql } from 'postgres';
import {
  documentDeleted,
  documentImported,
  documentSet,
  namespaceCleared,
} from '../../../datastore/changes.js';
import type { OutboxChanges, OutboxGate } from '../../../datastore/port.js';
import { StoaError } from '../../../core/errors.js';
import type { Change } from '../../../core/change.js';
import { type PostgresSql, query } from '../connection.js';

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

/** A row a statement, where the first layout had one a document: many writes that share a statement share its row. */
export const outboxRowsMigration = `
  ALTER TABLE agent_data_store_outbox ADD COLUMN changes json;
  UPDATE agent_data_store_outbox SET changes = json_build_array(CASE kind
    WHEN 'cleared' THEN json_build_array("userId", namespace, deleted, after, through)
    ELSE json_build_array("userId", namespace, key, version) END);
  ALTER TABLE agent_data_store_outbox ALTER COLUMN changes SET NOT NULL,
    DROP COLUMN "userId", DROP COLUMN namespace, DROP COLUMN key, DROP COLUMN version, DROP COLUMN deleted, DROP COLUMN after, DROP COLUMN through`;

interface OutboxRow {
  number: string;
  commit: string;
  kind: Kind;
  changes: string;
}

export type Kind = 'set' | 'imported' | 'deleted' | 'expired' | 'cleared';

/** An item of a row's `changes`; `version` is null for what is gone. */
type ToldDocument = [user: string, namespace: string, key: string, version: number | null];
/** How many documents went, and between which keys. */
type ToldClear = [
  user: string,
  namespace: string,
  deleted: number,
  after: string | null,
  through: string | null,
];

/** A statement that answers `"userId", namespace, key, version` of what it changed, as one that tells the feed of it too. */
export function telling(statement: string, kind: Kind, feedParameter: number): string {
  return `WITH changed AS (${statement}),
    told AS (INSERT INTO agent_data_store_outbox (feed, kind, changes)
      SELECT $${feedParameter}, '${kind}', json_agg(json_build_array("userId", namespace, key, version)) FROM changed HAVING count(*) > 0)
    SELECT "userId", namespace, key, version FROM changed`;
}

/** A part of a statement, for the count that it has taken under the name `counted`: a step of a clear is told as one. */
export function tellingCleared({
  feed,
  after,
  through,
}: {
  feed: number;
  after: number;
  through: number;
}): string {
  return `, told AS (INSERT INTO agent_data_store_outbox (feed, kind, changes)
    SELECT $${feed}, 'cleared', json_build_array(json_build_array($1::text, $2::text, deleted, $${after}::text, $${through}::text)) FROM counted WHERE deleted > 0)`;
}

/** Tells of documents that a transaction has deleted. */
export async function tellDeleted(
  tx: TransactionSql,
  feed: string,
  user: string,
  namespace: string,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return;
  const changes = keys.map((key): ToldDocument => [user, namespace, key, null]);
  await query(
    tx,
    `INSERT INTO agent_data_store_outbox (feed, kind, changes) VALUES ($1, 'deleted', $2::json)`,
    [feed, JSON.stringify(changes)],
  );
}

function changesOf({ kind, changes }: OutboxRow): Change[] {
  // The statements above are the only ones that write the table.
  const told = JSON.parse(changes) as (ToldDocument | ToldClear)[];
  return told.map((item) => {
    const [user, namespace] = item;
    const scope = { user, namespace };
    if (kind === 'cleared') {
      const [, , deleted, after, through] = item as ToldClear;
      return namespaceCleared(scope, deleted, after, through);
    }
    const [, , key, version] = item as ToldDocument;
    if (kind === 'set') return documentSet(scope, key, version ?? 0);
    return kind === 'imported'
      ? documentImported(scope, key, version ?? 0)
      : documentDeleted(scope, key, kind === 'expired');
  });
}

export interface DataOutboxOptions {
  sql: PostgresSql;
  gate: OutboxGate;
  onError: (error: unknown) => void;
}

/** What a crash or a lost answer left behind is looked for this often. */
const sweepMs = 1_000;
/** Carried changes leave the outbox together, so long after the first of them. */
const tidyMs = 200;
/** Rows of one look; the commits that they belong to come whole. */
const rowsMax = 100;

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

  /** Carries what an earlier run has left; what that one had carried already, the gate knows. */
  async start(): Promise<void> {
    const { gate, sql } = this.#options;
    const rows = await query<{ number: string }>(
      sql,
      'SELECT number FROM agent_data_store_outbox WHERE feed = $1',
      [this.feed],
    );
    const there = new Set(rows.map(({ number }) => number));
    gate.forget(gate.carried().filter((number) => !there.has(number)));
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
    // What is known is not sent again. A commit is known whole or not at all.
    const known = [...this.#carried, ...this.#carrying.keys()];
    const unknown = 'feed = $1 AND number <> ALL ($2::text[]::bigint[])';
    const oldest = `FROM agent_data_store_outbox WHERE ${unknown} ORDER BY number LIMIT ${rowsMax}`;
    let rows = await query<OutboxRow>(this.#options.sql, `SELECT * ${oldest}`, [this.feed, known]);
    const more = rows.length === rowsMax;
    if (more) {
      rows = await query<OutboxRow>(
        this.#options.sql,
        `SELECT * FROM agent_data_store_outbox WHERE ${unknown} AND commit IN (SELECT commit ${oldest}) ORDER BY number`,
        [this.feed, known],
      );
    }
    const commits = new Map<string, OutboxRow[]>();
    for (const row of rows) {
      // Of two commits that share a key, the later has the highest number of both.
      const own = [...(commits.get(row.commit) ?? []), row];
      commits.delete(row.commit);
      commits.set(row.commit, own);
    }
    for (const own of commits.values()) this.#begin(own);
    const carried = Promise.all(this.#carrying.values());
    return { carried: carried.then((outcomes) => !outcomes.includes(false)), more };
  }

  #begin(rows: readonly OutboxRow[]): void {
    const carrying = this.#carry(rows).finally(() => {
      for (const { number } of rows) this.#carrying.delete(number);
    });
    for (const { number } of rows) this.#carrying.set(number, carrying);
  }

  async #carry(rows: readonly OutboxRow[]): Promise<boolean> {
    const outcomes = await Promise.all(byUser(rows).map((changes) => this.#carryOne(changes)));
    if (outcomes.includes(false)) return false;
    for (const { number } of rows) this.#carried.add(number);
    if (!this.#isClosed) this.#tidying ??= setTimeout(() => this.#tidyLater(), tidyMs).unref();
    return true;
  }

  async #carryOne(changes: readonly OutboxChanges[]): Promise<boolean> {
    try {
      await this.#options.gate.carry(changes);
      return true;
    } catch (error) {
      this.#options.onError(error);
      // A user that the feed refuses, it refuses for good.
      return error instanceof StoaError && error.code === 'conflict';
    }
  }

  #tidyLater(): void {
    this.#tidying = undefined;
    this.#inTurn(() => this.#tidy()).catch(this.#options.onError);
  }

  async #tidy(): Promise<void> {
    const numbers = [...this.#carried];
    if (numbers.length === 0) return;
    await query(
      this.#options.sql,
      'DELETE FROM agent_data_store_outbox WHERE feed = $1 AND number = ANY($2::text[]::bigint[])',
      [this.feed, numbers],
    );
    for (const number of numbers) this.#carried.delete(number);
    this.#options.gate.forget(numbers);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work.then(work);
    // Whoever asked for the work hears of its failure; the next in the line only waits for its end.
    this.#work = done.catch(() => undefined);
    return done;
  }
}

/** A commit of the feed has one user; a statement that many writes share, an import or a sweep has more. */
function byUser(rows: readonly OutboxRow[]): OutboxChanges[][] {
  const users = new Map<string, Map<string, Change[]>>();
  for (const row of rows) {
    for (const change of changesOf(row)) {
      const user = change.user ?? '';
      const own = users.get(user) ?? new Map<string, Change[]>();
      users.set(user, own);
      const changes = own.get(row.number);
      if (changes === undefined) own.set(row.number, [change]);
      else changes.push(change);
    }
  }
  return [...users.values()].map((own) => [...own].map(([number, changes]) => ({ number, changes })));
}

interface Look {
  /** Whether all that was found got into the feed. */
  carried: Promise<boolean>;
  /** There may be more than one look holds. */
  more: boolean;
}
