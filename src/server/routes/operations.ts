/** The handlers of the operator's operations: server status, backups, transfers and repairs. */
import { Readable } from 'node:stream';
import { backups, blocks, server } from '../../api/operations/operations.js';
import { backupSchemas, blockSchemas, ndjson, serverSchemas } from '../../api/operations/schemas.js';
import { StoaError } from '../../core/errors.js';
import { version } from '../../version.js';
import { withProgress } from '../answer/progress-stream.js';
import { answer, routesOf, streaming } from '../route.js';
import { secondsIso } from './messaging/wire.js';

const stateRoutes = routesOf('server', server, serverSchemas, {
  status: async ({ stoa, request }) => {
    const { startedAtMs, streams } = request.server.stoaServer;
    return {
      version,
      node: process.version,
      uptime_seconds: Math.round((Date.now() - startedAtMs) / 1_000),
      streams: streams.count,
      ...(await stoa.operations.status()),
    };
  },
  config: ({ request }) => ({ items: [...request.server.stoaServer.settings], next_cursor: null }),
  examine: ({ stoa, body, request, reply, streams }) =>
    withProgress({ stoa, request, reply, streams }, (onProgress) =>
      stoa.operations.examine(body.repair, onProgress),
    ),
  listFamilies: async ({ stoa }) => ({ items: await stoa.operations.families(), next_cursor: null }),
  listEntries: ({ stoa, params, query }) => stoa.operations.entries(params.family, query),
  rekey: ({ stoa }) => stoa.secrets.rekey(),
  export: async ({ stoa, caller, query, reply }): Promise<typeof streaming> => {
    const lines = stoa.transfer.export(caller, {
      user: caller.everyUser ? null : caller.user,
      domains: query.domains,
      withSecrets: query.with_secrets,
    });
    // The first line is made before the head is sent, so that an error can still have its status.
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
    ...(await stoa.operations.backups(query.directory)),
  }),
  create: ({ stoa, caller, body: { kind, directory, with_key }, idempotency, request, reply, streams }) =>
    withProgress({ stoa, request, reply, streams }, (onProgress) =>
      stoa.operations.backup(caller, idempotency, { kind, directory, withKey: with_key, onProgress }),
    ),
  verify: ({ stoa, body, request, reply, streams }) =>
    withProgress({ stoa, request, reply, streams }, async (onProgress) => ({
      items: await stoa.operations.verifyBackups(body.directory, onProgress),
      next_cursor: null,
    })),
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
      throw new StoaError('not_found', `The address ${query.ip} is not blocked.`);
    return answer(204);
  },
});

export const serverRoutes = [...stateRoutes, ...backupRoutes, ...blockRoutes];

async function* joined(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}
