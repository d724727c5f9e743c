/** The schemas of the operator's operations. */
import { z } from 'zod';
import { transferDomains } from '../../transfer/model.js';
import { pageOf, pageQuery, pathSegment, progressAbout } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { backups, blocks, server } from './operations.js';

const count = z.int().min(0);

const statusSchema = z
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
    families: z.record(z.string(), z.object({ entries: count, size_bytes: count, estimated: z.boolean() })),
    servers: z
      .array(
        z.object({
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
        }),
      )
      .describe('The live servers that share the home; empty if only one server uses it'),
  })
  .meta({ id: 'Status' });

const backupSchema = z
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

const createdBackupSchema = backupSchema
  .extend({
    not_included: z
      .array(z.string())
      .describe('Domains in another database; back that database up with its own tools'),
  })
  .meta({ id: 'CreatedBackup' });

const backupListSchema = z
  .object({
    items: z.array(backupSchema),
    next_cursor: z.null(),
    unreadable: z
      .array(z.object({ name: z.string(), reason: z.string() }))
      .meta({ description: 'Entries of the directory that cannot be read as backups, with the reason.' }),
  })
  .meta({ id: 'BackupList' });

const directorySchema = z
  .string()
  .min(1)
  .max(4_096)
  .optional()
  .meta({ description: 'An absolute path on the server. The default is `backups` in the data directory.' });

export const ndjson = 'application/x-ndjson';
const flag = z.stringbool().default(false);

const domainsSchema = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(transferDomains)).min(1))
  .optional()
  .meta({ description: `Some of ${transferDomains.join(', ')}, separated by commas. The default is all.` });

const importReportSchema = z
  .object({
    dry_run: z.boolean(),
    records: count,
    written: count,
    replaced: count,
    same: count.describe('Records that already exist with the same content'),
    skipped: count,
    conflicts: z.array(
      z.object({
        line: count,
        type: z.string(),
        id: z.string(),
        kind: z.enum(['exists', 'name_taken', 'holds_tasks', 'quota', 'orphan']),
        detail: z.string(),
      }),
    ),
    conflicts_total: count,
    bad: z.array(z.object({ line: count, reason: z.string() })),
    bad_total: count,
  })
  .meta({ id: 'ImportReport' });

const findingSchema = z
  .object({
    shard: z.int(),
    family: z.string(),
    key: z.string().describe('In hexadecimal'),
    kind: z.enum(['missing', 'dangling', 'duplicate', 'wrong', 'unreadable']),
    problem: z.string(),
    repair: z.string().nullable().describe('What the repair does; null if only a backup helps'),
    repaired: z.boolean(),
  })
  .meta({ id: 'Finding' });

const hex = z.string().describe('Bytes in hexadecimal');
/** A key of an engine has at most 1,978 bytes; a longer prefix matches nothing. */
const prefixCharactersMax = 2 * 1_978;

export const serverSchemas = {
  status: { answers: { 200: statusSchema } },
  config: {
    description: 'Secrets are replaced by masks. Empty if a program opened this server without settings.',
    answers: {
      200: z
        .object({
          items: z.array(
            z.object({
              name: z.string(),
              value: z.unknown(),
              origin: z.string().describe('A flag, a variable, the path of the file, or `default`'),
              about: z.string(),
            }),
          ),
          next_cursor: z.null(),
        })
        .meta({ id: 'Configuration' }),
    },
  },
  examine: {
    description: 'Works while the store is in use. All findings are counted; only the first are listed.',
    body: z
      .strictObject({ repair: z.boolean().default(false) })
      .default({ repair: false })
      .meta({ id: 'Examine' }),
    answers: {
      200: z
        .object({ found: z.int(), repaired: z.int(), remaining: z.int(), findings: z.array(findingSchema) })
        .meta({ id: 'Examination' }),
    },
  },
  listFamilies: {
    answers: {
      200: z
        .object({
          items: z.array(
            z.object({ family: z.string(), entries: z.int(), size_bytes: z.int(), estimated: z.boolean() }),
          ),
          next_cursor: z.null(),
        })
        .meta({ id: 'Families' }),
    },
  },
  listEntries: {
    params: z.object({ family: pathSegment }),
    query: z.object({
      ...pageQuery,
      prefix: z
        .string()
        .regex(/^([0-9a-fA-F]{2})*$/, 'must be bytes in hexadecimal')
        .max(prefixCharactersMax)
        .optional()
        .meta({ description: 'Only keys that begin with these bytes, in hexadecimal.' }),
    }),
    answers: {
      200: z
        .object({
          items: z.array(z.object({ key: hex, value: hex, decoded: z.unknown() })),
          next_cursor: z.string().nullable(),
        })
        .meta({ id: 'Entries' }),
    },
  },
  rekey: {
    description:
      'Old keys stay in the key ring, for backups. If the keys come from the environment, no key is ' +
      'created and every secret is re-encrypted with the first key.',
    answers: { 200: z.object({ key_id: z.string(), resealed: z.record(z.string(), z.int()) }) },
  },
  export: {
    description:
      'A header, every record, and a last line with counts and a hash. The operator with `Stoa-User` ' +
      'exports that user. Tokens are never exported; secrets only with `with_secrets`.',
    query: z.object({
      domains: domainsSchema,
      with_secrets: flag.meta({ description: 'Export secrets as plain text.' }),
    }),
    answers: { 200: { contentType: ndjson, about: 'One record on each line.' } },
  },
  import: {
    description:
      'Every line is checked before the first record is written. Records keep their times, versions and ' +
      `counters. ${progressAbout}`,
    query: z.object({
      dry_run: flag.meta({ description: 'Report what would happen, without writing.' }),
      ids: z
        .enum(['keep', 'map'])
        .default('keep')
        .meta({ description: '`map` gives records new ids, which are always the same for the same file.' }),
      on_conflict: z.enum(['fail', 'skip', 'replace']).default('fail'),
      keep_going: flag.meta({ description: 'Skip invalid lines instead of refusing the file.' }),
    }),
    answers: { 200: importReportSchema },
  },
} satisfies SchemasOf<typeof server>;

export const backupSchemas = {
  list: { query: z.strictObject({ directory: directorySchema }), answers: { 200: backupListSchema } },
  create: {
    description: progressAbout,
    body: z
      .strictObject({
        kind: z.enum(['full', 'incremental']).default('full'),
        directory: directorySchema,
        with_key: z.boolean().default(false).meta({
          description: 'Include the key ring: a reader of the backup can then decrypt every secret.',
        }),
      })
      .default({ kind: 'full', with_key: false })
      .meta({ id: 'CreateBackup' }),
    answers: { 201: createdBackupSchema },
  },
  verify: {
    description: `Nothing is restored or changed. ${progressAbout}`,
    body: z.strictObject({ directory: directorySchema }).default({}).meta({ id: 'VerifyBackups' }),
    answers: {
      200: z
        .object({
          items: z.array(
            z.object({
              name: z.string(),
              kind: z.enum(['full', 'incremental']).nullable(),
              ok: z.boolean(),
              reason: z.string().nullable().describe('Why the backup cannot be restored'),
            }),
          ),
          next_cursor: z.null(),
        })
        .meta({ id: 'BackupVerdicts' }),
    },
  },
} satisfies SchemasOf<typeof backups>;

export const blockSchemas = {
  list: {
    query: z.object(pageQuery),
    answers: {
      200: pageOf(
        z.object({ ip: z.string(), reason: z.string(), expires_at: z.string() }).meta({ id: 'Block' }),
      ),
    },
  },
  delete: { query: z.object({ ip: z.string().min(1).max(100) }), answers: { 204: null } },
} satisfies SchemasOf<typeof blocks>;
