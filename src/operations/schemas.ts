/** The answers of the operator's operations: the one source for the reference and for types. */
import { z } from 'zod';

const count = z.int().min(0);

const liveServerSchema = z.object({
  id: z.string(),
  host: z.string(),
  process_id: count,
  version: z.string(),
  url: z.string().nullable(),
  uptime_seconds: count,
  clock_ahead_ms: z.int().describe("How far the server's clock is ahead of the database's"),
  feed_lag_commits: count.describe('Commits of the change feed that the server did not know of'),
  feed_lag_ms: count.describe('The age of the oldest of them'),
  pool_busy: count.describe('Connections to PostgreSQL that are in use'),
  pool_total: count,
  seen_ms_ago: count.describe('How long ago the server noted this'),
});

export const familySizeSchema = z.object({ entries: count, size_bytes: count, estimated: z.boolean() });

export const statusSchema = z
  .object({
    version: z.string(),
    node: z.string(),
    store_id: z.string(),
    engine: z.string(),
    shards: count,
    sync_writes: z.boolean().describe('False: a crash can lose acknowledged writes'),
    uptime_seconds: z.number(),
    writes: z
      .enum(['ok', 'disk_full', 'stopped'])
      .describe('disk_full ends when the disk has space again; stopped ends with a restart'),
    position: z.string().describe('The newest position of the change feed'),
    feed_bytes: count,
    expiry_backlog_ms: z.number(),
    streams: count,
    outbox: z
      .object({ waiting: count, oldest_waiting_seconds: z.number(), undeliverable: count })
      .nullable()
      .describe(
        'Messages of commits that are not delivered yet or are undeliverable; null if their database ' +
          'does not answer',
      ),
    capabilities: z
      .object({
        documents: z.object({
          backend: z.string(),
          atomic_batches: z.boolean().describe('False: each key of a batch has its own result'),
          changes: z
            .enum(['same-commit', 'after-write'])
            .describe('When a change reaches the feed: with its write, or right after it'),
          lists_lag: z.boolean().describe('True: lists show a write a moment later'),
        }),
        messages: z.object({
          durable: z.boolean().describe('An acknowledged message survives a crash of the machine'),
          about: z.string(),
        }),
      })
      .describe('What the databases of documents and messages promise'),
    embedding: z
      .object({
        model: z.string().nullable().describe('Null: the server has no embedder'),
        dimensions: count.nullable(),
        search: z.string().describe('How vectors are searched: one by one, by usearch, or by pgvector'),
        waiting: count.describe('Documents that wait for a vector'),
        oldest_waiting_seconds: z.number(),
        failing: z.string().nullable().describe('Why the embedder fails; null if it works'),
      })
      .describe('The work that gives documents vectors'),
    size_bytes: count,
    families: z.record(z.string(), familySizeSchema),
    servers: z
      .array(liveServerSchema)
      .describe('The live servers that share the home; empty if only one server uses it'),
  })
  .meta({ id: 'Status' });

export const backupSchema = z
  .object({
    name: z.string(),
    directory: z.string(),
    kind: z.enum(['full', 'incremental']),
    parent: z.string().nullable(),
    store: z.string(),
    taken_at: z.string(),
    position: z.string().describe('The position of the change feed after a restore of this backup'),
    size_bytes: count,
    with_key: z
      .boolean()
      .describe('True: the backup contains the key ring, so its reader can decrypt every secret'),
    reason: z
      .string()
      .nullable()
      .describe('Why the chain of this backup cannot be restored; null if the chain is complete'),
  })
  .meta({ id: 'Backup' });

export const createdBackupSchema = backupSchema
  .extend({
    not_included: z
      .array(z.string())
      .describe('Domains in another database; back that database up with its own tools'),
  })
  .meta({ id: 'CreatedBackup' });

export const backupListSchema = z
  .object({
    items: z.array(backupSchema),
    next_cursor: z.null(),
    unreadable: z
      .array(z.object({ name: z.string(), reason: z.string() }))
      .meta({ description: 'Entries of the directory that cannot be read as backups, with the reason.' }),
  })
  .meta({ id: 'BackupList' });

export const backupVerdictSchema = z.object({
  name: z.string(),
  kind: z.enum(['full', 'incremental']).nullable(),
  ok: z.boolean(),
  reason: z.string().nullable().describe('Why the backup cannot be restored'),
});

export const findingSchema = z
  .object({
    shard: z.int(),
    family: z.string(),
    key: z.string().describe('In hexadecimal'),
    /**
     * A row that follows from another row does not exist; refers to a record that does not exist; is the second of
     * an index that must have one; has other content than it must have; cannot be decoded.
     */
    kind: z.enum(['missing', 'dangling', 'duplicate', 'wrong', 'unreadable']),
    problem: z.string(),
    repair: z.string().nullable().describe('What the repair does; null if only a backup helps'),
    repaired: z.boolean(),
  })
  .meta({ id: 'Finding' });

export const examinationSchema = z
  .object({ found: z.int(), repaired: z.int(), remaining: z.int(), findings: z.array(findingSchema) })
  .meta({ id: 'Examination' });

const hex = z.string().describe('Bytes in hexadecimal');

export const entrySchema = z.object({ key: hex, value: hex, decoded: z.unknown() });
