/** All advisory locks of the PostgreSQL home. A lock is held until the end of its transaction. */

/** Locks that exist once in a database. */
const single = {
  /**
   * Numbering and trimming commits of the feed, and counting their bytes again. Held before the tables of the feed
   * are locked, whose order depends on the plan of a statement.
   */
  feed: "hashtext('stoa_feed')",
  /** Merging the counts of documents. */
  documentCounts: "hashtext('agent_data_store_counts')",
  /** Counting MCP sessions before one is added. */
  mcpSessions: "hashtext('stoa_mcp_sessions')",
  /** Creating and changing tables. */
  migrations: "hashtext('stoa_migrations')",
  /** A move from or into this database. This one is held until its connection ends. */
  move: "hashtext('stoa_move')",
  /** Taking notes of writes of a store that have no end. */
  storeWrites: "hashtext('stoa_store_writes')",
  /** With a second number: a bucket of the rows that a write of several steps changes. */
  writeBucket: "hashtext('stoa_write')",
} as const;

/** Locks that exist once for each key. The number is the seed of the hash: it separates equal keys of two kinds. */
const seeds = {
  /** A user id: the sums of the user's documents and kept answers. */
  userSums: 0,
  /** The name of a workspace of a user, or of a project of a workspace. */
  workspaceName: 2,
  /** A project id: its active session. */
  activeSession: 3,
  /** The destination of messages of commits. */
  delivery: 6,
  /** An Idempotency-Key. */
  answer: 7,
  /** A user id: the number of its tokens. */
  userTokens: 8,
  /** The owner of an identity whose key the server keeps. */
  keptIdentity: 9,
  /** The owner of entries of the search: filing and joining them. */
  findOwner: 11,
  /** The owner of entries of the search whose segments are being joined, besides `findOwner`. */
  findMerge: 13,
  /** The owner of documents: storing their vectors, and changing settings of namespaces. */
  findVectors: 12,
  /** A user id: the names and the number of its rooms. */
  userRooms: 10,
  /**
   * A user id and a namespace: its documents. Writes share the lock before they lock documents; a clear excludes them,
   * so that no document is made between its deletions and its change in the feed.
   */
  namespaceDocuments: 14,
} as const;

/** The lock as an argument of PostgreSQL's lock functions. */
export function lockNumber(lock: keyof typeof single): string {
  return single[lock];
}

/** Waits for the lock. */
export function lockSql(lock: keyof typeof single): string {
  return `SELECT pg_advisory_xact_lock(${single[lock]})`;
}

/** Returns `taken`: false if another transaction has the lock. */
export function tryLockSql(lock: keyof typeof single): string {
  return `SELECT pg_try_advisory_xact_lock(${single[lock]}) AS taken`;
}

/** Waits for the lock of the key $1. */
export function lockKeySql(lock: keyof typeof seeds): string {
  return `SELECT pg_advisory_xact_lock(hashtextextended($1, ${seeds[lock]}))`;
}

/** Waits for the locks of the keys in $1, which several transactions can have in this way. */
export function shareLockKeysSql(lock: keyof typeof seeds): string {
  return `SELECT pg_advisory_xact_lock_shared(hashtextextended(key, ${seeds[lock]})) FROM unnest($1::text[]) AS key`;
}

/**
 * The same within a statement, for the SQL expression `key` of every row that `from` lists. The row of the CTE `name`
 * has `locks`, their number.
 */
export function shareLocksCte(name: string, lock: keyof typeof seeds, key: string, from: string): string {
  return `${name} AS MATERIALIZED (
      SELECT count(pg_advisory_xact_lock_shared(hashtextextended(key, ${seeds[lock]}))) AS locks
        FROM (SELECT DISTINCT ${key} AS key FROM ${from}) AS keys)`;
}

/** Returns `taken`: false if another transaction has the lock of the key $1. Several can have it in this way. */
export function tryShareLockKeySql(lock: keyof typeof seeds): string {
  return `SELECT pg_try_advisory_xact_lock_shared(hashtextextended($1, ${seeds[lock]})) AS taken`;
}

/** Returns `taken`: false if another transaction has the lock of the key $1. */
export function tryLockKeySql(lock: keyof typeof seeds): string {
  return `SELECT pg_try_advisory_xact_lock(hashtextextended($1, ${seeds[lock]})) AS taken`;
}
