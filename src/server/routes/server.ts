/** What only the operator may do: the state of the server, backups, transfers, repairs. */
import { readFile } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import type { z } from 'zod';
import { backups, blocks, server } from '../../api/admin/operations.js';
import {
  backupSchemas,
  blockSchemas,
  type findingSchema,
  ndjson,
  serverSchemas,
} from '../../api/admin/schemas.js';
import { embeddedChecks } from '../../homes/directory/doctor/doctor.js';
import { concealsEmbedded, decodeEmbeddedEntry } from '../../homes/directory/inspect.js';
import { StoaError } from '../../core/errors.js';
import type { Stoa } from '../../index.js';
import { type BackupSummaries, summariesIn, summaryOf } from '../../homes/directory/kernel/backup/chain.js';
import { backup } from '../../homes/directory/kernel/backup/backup.js';
import { examineAll } from '../../homes/directory/kernel/inspect/doctor.js';
import { keyBytesMax } from '../../homes/directory/kernel/engine.js';
import { countedStats, familyNamed, inspectFamily } from '../../homes/directory/kernel/inspect/inspect.js';
import { decodeCursor, encodeCursor, invalidCursor, pageLimit } from '../../core/paging.js';
import { version } from '../../version.js';
import { withProgress } from '../progress-stream.js';
import { answer, routesOf, streaming } from '../route.js';
import { secondsIso } from './messaging-wire.js';

/** Rows of a family that the status counts where the engine does not know their number. */
const statusEntriesMax = 10_000;

const stateRoutes = routesOf('server', server, serverSchemas, {
  status: async ({ stoa, request }) => {
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
      position: await stoa.changes.newest(),
      feed_bytes: kernel.stores.reduce((sum, store) => sum + store.feedExtent().sizeBytes, 0),
      expiry_backlog_ms: kernel.expiryBacklogMs(),
      streams: streams.count,
      outbox: await outboxOf(stoa),
      size_bytes: stats.sizeBytes,
      families: Object.fromEntries(families),
    };
  },
  examine: async ({ stoa, body: { repair } }) => {
    const findings: z.output<typeof findingSchema>[] = [];
    let [found, repaired] = [0, 0];
    for await (const finding of examineAll(stoa.kernel.stores, embeddedChecks(stoa.kernel), { repair })) {
      found += 1;
      if (finding.repaired) repaired += 1;
      if (findings.length < stoa.limits.doctorFindingsMax) findings.push(finding);
    }
    return { found, repaired, remaining: found - repaired, findings };
  },
  listFamilies: async ({ stoa }) => {
    const { families } = await countedStats(stoa.kernel.stores);
    const items = [...families].map(([family, { entries, sizeBytes, estimated }]) => ({
      family,
      entries,
      size_bytes: sizeBytes,
      estimated,
    }));
    return { items: items.toSorted((a, b) => (a.family < b.family ? -1 : 1)), next_cursor: null };
  },
  listEntries: ({ stoa, params, query }) => {
    const { stores } = stoa.kernel;
    const family = familyNamed(stores, params.family);
    const prefix = Buffer.from(query.prefix ?? '', 'hex');
    const list = `inspect ${family} ${prefix.toString('hex')}`;
    // A cursor is the number of the shard and the last key of the page before.
    const cursor = decodeCursor(list, query.cursor);
    if (cursor !== null && cursor.length > 1 + keyBytesMax) throw invalidCursor();
    const from = cursor === null ? undefined : { shard: cursor.readUInt8(0), after: cursor.subarray(1) };
    const { items, next } = inspectFamily(stores, family, {
      prefix,
      limit: pageLimit(query.limit, stoa.limits),
      from,
      decode: decodeEmbeddedEntry,
      conceals: concealsEmbedded,
    });
    return {
      items,
      next_cursor:
        next === undefined ? null : encodeCursor(list, Buffer.concat([Buffer.of(next.shard), next.after])),
    };
  },
  rekey: ({ stoa }) => stoa.secrets.rekey(),
  export: async ({ stoa, caller, query, reply }): Promise<typeof streaming> => {
    const lines = stoa.transfer.export(caller, {
      user: caller.everyUser ? null : caller.user,
      domains: query.domains,
      withSecrets: query.with_secrets,
    });
    // The first line is made before the head of the answer is sent: a refusal still is one.
    const first = await lines.next();
    void reply.header('content-type', ndjson).send(Readable.from(joined(first.value ?? '', lines)));
    return streaming;
  },
  import: async ({ stoa, caller, query, request, reply, streams }) => {
    const choices = {
      dryRun: query.dry_run,
      ids: query.ids,
      onConflict: query.on_conflict,
      keepGoing: query.keep_going,
    };
    return request.server.stoaServer.spool.withFile(request, (path) =>
      withProgress({ stoa, request, reply, streams }, (onProgress) =>
        stoa.transfer.import(caller, path, { ...choices, onProgress }),
      ),
    );
  },
});

const backupRoutes = routesOf('backups', backups, backupSchemas, {
  list: async ({ stoa, query }) => ({
    next_cursor: null,
    ...(await summariesOrNone(directoryOf(stoa, query.directory), query.directory !== undefined)),
  }),
  create: ({ stoa, caller, body, idempotency, request, reply, streams }) => {
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
      return stoa.longWork.once(caller, idempotency, make);
    });
  },
});

const blockRoutes = routesOf('blocks', blocks, blockSchemas, {
  list: async ({ stoa, query }) => {
    const { items, next_cursor } = await stoa.messaging.gate.blocks(query);
    return {
      items: items.map(({ address, reason, expiresAtMs }) => ({
        ip: address,
        reason,
        expires_at: secondsIso(expiresAtMs),
      })),
      next_cursor,
    };
  },
  delete: async ({ stoa, query }) => {
    if (!(await stoa.messaging.gate.unblock(query.ip)))
      throw new StoaError('not_found', 'This address is not blocked.');
    return answer(204);
  },
});

export const serverRoutes = [...stateRoutes, ...backupRoutes, ...blockRoutes];

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

async function* joined(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}
