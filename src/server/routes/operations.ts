/** For whoever runs the server: its state and its backups. */
import { readFile } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { StoaError } from '../../errors.js';
import type { Stoa } from '../../index.js';
import { type BackupSummaries, summariesIn, summaryOf } from '../../kernel/backup-chain.js';
import { backup } from '../../kernel/backup.js';
import { countedStats } from '../../kernel/inspect.js';
import { onceAround } from '../../kernel/once.js';
import { version } from '../../version.js';
import { progressAbout, withProgress } from '../progress-stream.js';
import { defineRoute, operatorOnly } from '../route.js';

const count = z.int().min(0);

/** Rows of a family that the status counts where the engine does not know their number. */
const statusEntriesMax = 10_000;

const statusSchema = z
  .object({
    version: z.string(),
    node: z.string(),
    store_id: z.string(),
    engine: z.string(),
    shards: count,
    sync_writes: z.boolean().describe('False: acknowledged writes may be lost with the machine'),
    uptime_seconds: z.number(),
    writes: z
      .enum(['ok', 'disk_full', 'stopped'])
      .describe('disk_full ends by itself when there is room again, stopped with a restart'),
    position: z.string().describe('The newest position of the change feed'),
    feed_bytes: count,
    expiry_backlog_ms: z.number(),
    streams: count,
    outbox: z
      .object({ waiting: count, oldest_waiting_seconds: z.number(), undeliverable: count })
      .nullable()
      .describe(
        'Messages of commits that messaging does not have yet, or never will; null when their database does not answer',
      ),
    size_bytes: count,
    families: z.record(z.string(), z.object({ entries: count, size_bytes: count, estimated: z.boolean() })),
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
    position: z.string().describe('The position of the change feed that a restore of it reaches'),
    size_bytes: count,
    with_key: z.boolean().describe('True: it holds the key ring, so whoever has it can read every secret'),
    reason: z.string().nullable().describe('Why its chain cannot be restored; null where no link is missing'),
  })
  .meta({ id: 'Backup' });

const createdBackupSchema = backupSchema
  .extend({
    not_included: z
      .array(z.string())
      .describe('Domains that another database keeps; back that up with its own tools'),
  })
  .meta({ id: 'CreatedBackup' });

const backupListSchema = z
  .object({
    items: z.array(backupSchema),
    next_cursor: z.null(),
    unreadable: z
      .array(z.object({ name: z.string(), reason: z.string() }))
      .meta({ description: 'What is there but does not say what it is, and why.' }),
  })
  .meta({ id: 'BackupList' });

const directorySchema = z
  .string()
  .min(1)
  .max(4_096)
  .optional()
  .meta({ description: 'An absolute path on the server; `backups` in the data directory unless given.' });

export const operationRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/status',
    summary: 'The state of the server and its store',
    tags: ['operations'],
    principals: operatorOnly,
    answers: { 200: statusSchema },
    handler: async ({ stoa, request }) => {
      const { kernel } = stoa;
      const { startedAtMs, streams } = request.server.stoaServer;
      const stats = await countedStats(kernel.stores, statusEntriesMax);
      const families = [...stats.families].map(
        ([name, { entries, sizeBytes, estimated }]) =>
          [name, { entries, size_bytes: sizeBytes, estimated }] as const,
      );
      return {
        version,
        node: process.version,
        store_id: kernel.manifest.id,
        engine: kernel.manifest.engine,
        shards: kernel.stores.length,
        sync_writes: stoa.syncWrites,
        uptime_seconds: Math.round((Date.now() - startedAtMs) / 1_000),
        writes: kernel.writes,
        position: stoa.changes.position,
        feed_bytes: kernel.stores.reduce((sum, store) => sum + store.feedExtent().sizeBytes, 0),
        expiry_backlog_ms: kernel.expiryBacklogMs(),
        streams: streams.count,
        outbox: await outboxOf(stoa),
        size_bytes: stats.sizeBytes,
        families: Object.fromEntries(families),
      };
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/backups',
    summary: 'List the backups of a directory on the server, oldest first',
    tags: ['operations'],
    principals: operatorOnly,
    query: z.strictObject({ directory: directorySchema }),
    answers: { 200: backupListSchema },
    handler: async ({ stoa, query }) => ({
      next_cursor: null,
      ...(await summariesOrNone(directoryOf(stoa, query.directory), query.directory !== undefined)),
    }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/backups',
    summary: 'Make a backup while the server runs',
    description: progressAbout,
    tags: ['operations'],
    principals: operatorOnly,
    body: z
      .strictObject({
        kind: z.enum(['full', 'incremental']).default('full'),
        directory: directorySchema,
        with_key: z.boolean().default(false).meta({
          description: 'Put the key ring for secrets in: whoever has the backup can then read them.',
        }),
      })
      .default({ kind: 'full', with_key: false })
      .meta({ id: 'CreateBackup' }),
    creates: true,
    streams: true,
    answers: { 201: createdBackupSchema },
    handler: ({ stoa, body, idempotency, request, reply, streams }) => {
      const directory = directoryOf(stoa, body.directory);
      const readKey = body.with_key ? () => readFile(stoa.secrets.ring.fileForCopy()) : undefined;
      return withProgress({ stoa, request, reply, streams }, (onProgress) => {
        const make = async () => ({
          ...summaryOf(
            directory,
            await backup(stoa.kernel, { directory, kind: body.kind, readKey, onProgress }),
          ),
          not_included: [...stoa.keptElsewhere],
        });
        return idempotency === null ? make() : onceAround(stoa.kernel.root, idempotency, make);
      });
    },
  }),
];

function directoryOf(stoa: Stoa, given: string | undefined): string {
  if (given === undefined) return join(resolve(stoa.kernel.dataDir), 'backups');
  if (isAbsolute(given)) return given;
  throw new StoaError('invalid_request', 'The directory of a backup is an absolute path on the server.', {
    fix: 'Begin it with "/".',
  });
}

/** Before the first backup the directory of a store's own is not there. */
async function summariesOrNone(directory: string, isNamed: boolean): Promise<BackupSummaries> {
  try {
    return await summariesIn(directory);
  } catch (error) {
    if (!isNamed && error instanceof StoaError && error.code === 'not_found')
      return { items: [], unreadable: [] };
    throw error;
  }
}

async function outboxOf({
  commit,
  onError,
}: Stoa): Promise<{ waiting: number; oldest_waiting_seconds: number; undeliverable: number } | null> {
  try {
    const { waiting, oldestWaitingSeconds, undeliverable } = await commit.outbox();
    return { waiting, oldest_waiting_seconds: oldestWaitingSeconds, undeliverable };
  } catch (error) {
    onError(error, 'counting the outbox for the status');
    return null;
  }
}
