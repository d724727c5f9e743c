/** Everything out of a store and into one, as lines of JSON. */
import { Readable } from 'node:stream';
import { z } from 'zod';
import { transferDomains } from '../../transfer/model.js';
import { progressAbout, withProgress } from '../progress-stream.js';
import { defineRoute, operatorOnly, streaming } from '../route.js';

const ndjson = 'application/x-ndjson';
const flag = z.stringbool().default(false);
const count = z.int().min(0);

const domainsSchema = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(transferDomains)).min(1))
  .optional()
  .meta({ description: `Some of ${transferDomains.join(', ')}, separated by commas; all unless given.` });

const reportSchema = z
  .object({
    dry_run: z.boolean(),
    records: count,
    written: count,
    replaced: count,
    same: count.describe('They were there already, exactly so'),
    skipped: count,
    conflicts: z.array(
      z.object({
        line: count,
        type: z.string(),
        id: z.string(),
        kind: z.enum(['exists', 'name_taken', 'quota', 'orphan']),
        detail: z.string(),
      }),
    ),
    conflicts_total: count,
    bad: z.array(z.object({ line: count, reason: z.string() })),
    bad_total: count,
  })
  .meta({ id: 'ImportReport' });

export const transferRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/export',
    summary: 'Everything as lines of JSON',
    description:
      'A header, every record, and a last line with counts and a hash. The operator with `Stoa-User` exports that user. Tokens are never in it; secrets only with `with_secrets`.',
    tags: ['operations'],
    principals: operatorOnly,
    streams: true,
    query: z.object({
      domains: domainsSchema,
      with_secrets: flag.meta({ description: 'Secrets as plain text.' }),
    }),
    answers: { 200: { contentType: ndjson, about: 'One record a line.' } },
    handler: async ({ stoa, caller, query, reply }): Promise<typeof streaming> => {
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
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/import',
    summary: 'Lines of an export into this store',
    description:
      'Every line is checked before the first record is written. Records keep their times, versions and counters. ' +
      progressAbout,
    tags: ['operations'],
    principals: operatorOnly,
    consumes: null,
    streamsBody: true,
    streams: true,
    query: z.object({
      dry_run: flag.meta({ description: 'Only tell what would happen.' }),
      ids: z
        .enum(['keep', 'map'])
        .default('keep')
        .meta({ description: '`map` gives records new ids, the same ones for the same file.' }),
      on_conflict: z.enum(['fail', 'skip', 'replace']).default('fail'),
      keep_going: flag.meta({ description: 'Leave bad lines out instead of refusing the file.' }),
    }),
    answers: { 200: reportSchema },
    handler: async ({ stoa, caller, query, request, reply, streams }) => {
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
  }),
];

async function* joined(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}
