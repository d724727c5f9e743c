/** Documents of the data store exactly as they are: export and import. */
import { z } from 'zod';
import {
  documentSchema,
  importAnswerSchema,
  importReportSchema,
  importSchema,
  pageOf,
} from '../../datastore/schemas.js';
import { toDocumentJson } from '../../datastore/seed-document.js';
import { importDocumentFile } from '../../transfer/document-file.js';
import { withProgress, progressAbout } from '../progress-stream.js';
import { pageQuery } from '../query.js';
import { JsonText, authenticated, defineRoute } from '../route.js';

export const documentRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/documents',
    summary: 'Every document of the data store, for export',
    description:
      "The caller's own; the operator without `Stoa-User` exports all users'. It counts as no read.",
    tags: ['data'],
    principals: authenticated,
    query: z.object(pageQuery),
    answers: { 200: pageOf(documentSchema) },
    handler: async ({ stoa, caller, query }) => {
      const { items, next_cursor } = await stoa.data.transfer.exportPage(caller, query);
      return new JsonText(
        `{"items":[${items.map(toDocumentJson).join(',')}],"next_cursor":${JSON.stringify(next_cursor)}}`,
      );
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/documents',
    summary: 'Imports documents as they are, over what is there',
    description:
      'Times, counts, versions and the names of agents are kept. Nothing is written unless every document is good.',
    tags: ['data'],
    // A document names who made and read it, which a signed agent must not claim for others.
    principals: ['operator', 'user'],
    body: importSchema,
    answers: { 200: importAnswerSchema },
    handler: ({ stoa, caller, body }) =>
      stoa.data.transfer.import(caller, body.documents, { dryRun: body.dry_run === true }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/documents/lines',
    summary: 'Imports a file of documents, one a line, of any length',
    description:
      'Every line is checked, and the whole counted against the quotas, before the first document is written. Over what is there, as it is. ' +
      progressAbout,
    tags: ['data'],
    principals: ['operator', 'user'],
    consumes: null,
    streamsBody: true,
    bodyLimit: 'importBytesMax',
    streams: true,
    query: z.object({
      dry_run: z.stringbool().default(false).meta({ description: 'Only check them.' }),
      keep_going: z
        .stringbool()
        .default(false)
        .meta({ description: 'Leave bad lines out instead of refusing the file.' }),
    }),
    answers: { 200: importReportSchema },
    handler: async ({ stoa, caller, query, request, reply, streams }) => {
      stoa.data.transfer.checkMayImport(caller);
      return request.server.stoaServer.spool.withFile(request, (path) =>
        withProgress({ stoa, request, reply, streams }, (onProgress) =>
          importDocumentFile(stoa.data, caller, path, {
            dryRun: query.dry_run,
            keepGoing: query.keep_going,
            onProgress,
          }),
        ),
      );
    },
  }),
];
