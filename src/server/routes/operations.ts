/** For whoever runs the server: its state and its backups. */
import { isAbsolute, join } from 'node:path';
import { z } from 'zod';
import { StoaError } from '../../errors.js';
import { backup } from '../../kernel/backup.js';
import { familyStats } from '../../kernel/inspect.js';
import { version } from '../../version.js';
import { defineRoute, operatorOnly } from '../route.js';

const count = z.int().min(0);

const statusSchema = z
  .object({
    version: z.string(),
    node: z.string(),
    store_id: z.string(),
    engine: z.string(),
    shards: count,
    sync_writes: z.boolean().describe('False: acknowledged writes may be lost with the machine'),
    uptime_seconds: z.number(),
    writes: z.enum(['ok', 'stopped']),
    position: z.string().describe('The newest position of the change feed'),
    feed_bytes: count,
    expiry_backlog_ms: z.number(),
    streams: count,
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
  })
  .meta({ id: 'Backup' });

export const operationRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/status',
    summary: 'The state of the server and its store',
    tags: ['operations'],
    principals: operatorOnly,
    answers: { 200: statusSchema },
    handler: ({ stoa, request }) => {
      const { kernel } = stoa;
      const { startedAtMs, streams } = request.server.stoaServer;
      const families = [...familyStats(kernel.stores)].map(([name, { entries, sizeBytes, estimated }]) => [name, { entries, size_bytes: sizeBytes, estimated }] as const);
      return {
        version,
        node: process.version,
        store_id: kernel.manifest.id,
        engine: kernel.manifest.engine,
        shards: kernel.stores.length,
        sync_writes: stoa.syncWrites,
        uptime_seconds: Math.round((Date.now() - startedAtMs) / 1_000),
        writes: kernel.stores.some((store) => store.stopped !== undefined) ? ('stopped' as const) : ('ok' as const),
        position: stoa.changes.position,
        feed_bytes: kernel.stores.reduce((sum, store) => sum + store.feedExtent().sizeBytes, 0),
        expiry_backlog_ms: kernel.expiryBacklogMs(),
        streams: streams.count,
        size_bytes: kernel.stores.reduce((sum, store) => sum + store.engine.stats().sizeBytes, 0),
        families: Object.fromEntries(families),
      };
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/backups',
    summary: 'Make a backup while the server runs',
    tags: ['operations'],
    principals: operatorOnly,
    body: z
      .strictObject({
        kind: z.enum(['full', 'incremental']).default('full'),
        directory: z.string().min(1).max(4_096).optional().meta({ description: 'An absolute path on the server; `backups` in the data directory unless given.' }),
      })
      .default({ kind: 'full' })
      .meta({ id: 'CreateBackup' }),
    answers: { 201: backupSchema },
    handler: async ({ stoa, body }) => {
      const directory = body.directory ?? join(stoa.kernel.dataDir, 'backups');
      if (!isAbsolute(directory) && body.directory !== undefined) {
        throw new StoaError('invalid_request', 'The directory of a backup is an absolute path on the server.', { fix: 'Begin it with "/".' });
      }
      const { name, kind, parent, store, taken_at } = await backup(stoa.kernel, { directory, kind: body.kind });
      return { name, directory, kind, parent, store, taken_at };
    },
  }),
];
