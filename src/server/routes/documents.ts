/** Documents of the data store exactly as they are: export and import. */
import { z } from 'zod';
import { documentSchema, importAnswerSchema, importSchema, pageOf } from '../../datastore/schemas.js';
import { toDocumentJson } from '../../datastore/seed-document.js';
import { pageQuery } from '../query.js';
import { JsonText, authenticated, defineRoute } from '../route.js';

export const documentRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/documents',
    summary: 'Every document of the data store, for export',
    description: "The caller's own; the operator without `Stoa-User` exports all users'. It counts as no read.",
    tags: ['data'],
    principals: authenticated,
    query: z.object(pageQuery),
    answers: { 200: pageOf(documentSchema) },
    handler: async ({ stoa, caller, query }) => {
      const { items, next_cursor } = await stoa.data.transfer.exportPage(caller, query);
      return new JsonText(`{"items":[${items.map(toDocumentJson).join(',')}],"next_cursor":${JSON.stringify(next_cursor)}}`);
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/documents',
    summary: 'Imports documents as they are, over what is there',
    description: 'Times, counts and versions are kept. Nothing is written unless every document is good.',
    tags: ['data'],
    principals: authenticated,
    body: importSchema,
    answers: { 200: importAnswerSchema },
    handler: ({ stoa, caller, body }) => stoa.data.transfer.import(caller, body.documents, { dryRun: body.dry_run === true }),
  }),
];
