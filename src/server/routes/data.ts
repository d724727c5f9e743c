/** The data store over HTTP. */
import { z } from 'zod';
import {
  namespaceSchema,
  batchAnswerSchema,
  batchSchema,
  changeDocumentSchema,
  changedSchema,
  clearedSchema,
  documentSchema,
  keySummarySchema,
  pageOf,
  setDocumentSchema,
  writtenSchema,
} from '../../datastore/schemas.js';
import type { DocumentRecord, KeySummary } from '../../datastore/model.js';
import type { ExpectedVersion, WriteResult } from '../../datastore/port.js';
import { toDocumentJson } from '../../datastore/seed-document.js';
import { StoaError } from '../../errors.js';
import type { Page } from '../../paging.js';
import { validate } from '../../validate.js';
import { goneOf } from '../gone.js';
import { pathSegment } from '../path-segment.js';
import { pageQuery, queryBoolean } from '../query.js';
import { JsonText, answer, authenticated, defineRoute } from '../route.js';
import { positioned } from './positioned.js';

const inNamespace = z.object({ ns: pathSegment });
const ofDocument = z.object({ ns: pathSegment, key: pathSegment });
const mergePatchType = 'application/merge-patch+json';

export const dataRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/data',
    summary: 'The namespaces, with what is in them',
    tags: ['data'],
    principals: authenticated,
    query: z.object(pageQuery),
    answers: { 200: pageOf(namespaceSchema) },
    handler: ({ stoa, caller, query, reply }) =>
      stoa.data.listNamespaces(caller, { ...query, signal: goneOf(reply) }),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/data/{ns}',
    summary: 'The keys of a namespace in code-point order, or its documents',
    description:
      'With `values=1` the items are whole documents, and each counts as read by the agent. `Stoa-Position` says from where to follow the changes of what was read.',
    tags: ['data'],
    principals: authenticated,
    params: inNamespace,
    query: z.object({
      ...pageQuery,
      prefix: z.string().optional().meta({ description: 'What the keys begin with.' }),
      values: queryBoolean().optional().meta({ description: 'Whole documents instead of keys.' }),
    }),
    answers: { 200: pageOf(z.union([documentSchema, keySummarySchema])) },
    handler: ({ stoa, caller, params, query: { values, ...asked }, reply }) =>
      positioned<Page<KeySummary> | JsonText>(stoa, async () => {
        const page = { ...asked, signal: goneOf(reply) };
        if (values !== true) return stoa.data.listKeys(caller, params.ns, page);
        const { items, next_cursor } = await stoa.data.listDocuments(caller, params.ns, page);
        // Whoever follows the feed from the position finds the changes of these documents in it, and knows them.
        await stoa.data.settleFeed();
        return new JsonText(
          `{"items":[${items.map(toDocumentJson).join(',')}],"next_cursor":${JSON.stringify(next_cursor)}}`,
        );
      }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/data/{ns}',
    summary: 'Sets, deletes and reads many keys in one step',
    description:
      'First the writes, all or none where the backend can, then the reads. At most 1,000 keys and 16 MiB of values.',
    tags: ['data'],
    principals: authenticated,
    creates: true,
    // A batch of reads is for readers too; the service refuses the rest.
    writes: false,
    params: inNamespace,
    body: batchSchema,
    answers: { 200: batchAnswerSchema },
    handler: ({ stoa, caller, params, body, idempotency }) =>
      stoa.data.batch(caller, params.ns, body, idempotency),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/data/{ns}',
    summary: 'Clears a namespace',
    tags: ['data'],
    principals: authenticated,
    params: inNamespace,
    answers: { 200: clearedSchema },
    handler: async ({ stoa, caller, params, reply }) => ({
      deleted: await stoa.data.clear(caller, params.ns, { signal: goneOf(reply) }),
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/data/{ns}/{key}',
    summary: 'One document',
    tags: ['data'],
    principals: authenticated,
    versioned: true,
    params: ofDocument,
    answers: { 200: documentSchema },
    handler: ({ stoa, caller, params }) => {
      const found = stoa.data.getRecord(caller, params.ns, params.key);
      return found instanceof Promise
        ? found.then((record) => documentAnswer(params, record))
        : documentAnswer(params, found);
    },
  }),
  defineRoute({
    method: 'PUT',
    path: '/v1/data/{ns}/{key}',
    summary: 'Writes a document, new or over the one that is there',
    tags: ['data'],
    principals: authenticated,
    versioned: true,
    repeatable: true,
    params: ofDocument,
    body: setDocumentSchema,
    answers: { 200: writtenSchema, 201: writtenSchema },
    handler: async ({ stoa, caller, params, body, ifVersion, ifExists, idempotency }) => {
      const { value, ...options } = body;
      return written(
        await stoa.data.set(caller, params.ns, params.key, value, {
          ...options,
          ifVersion: expected(ifVersion, ifExists),
          idempotency,
        }),
      );
    },
  }),
  defineRoute({
    method: 'PATCH',
    path: '/v1/data/{ns}/{key}',
    summary: 'Adds to a number, appends to a list, or merges into a value, in one step',
    description: `\`{increment}\` or \`{append}\` as application/json; a JSON merge patch of the value (RFC 7396) only as ${mergePatchType}. A missing document counts as 0, as an empty list, or as nothing.`,
    tags: ['data'],
    principals: authenticated,
    versioned: true,
    repeatable: true,
    consumes: ['application/json', mergePatchType],
    params: ofDocument,
    body: z.unknown().meta({ description: 'ChangeDocument, or with the other content type a merge patch.' }),
    answers: { 200: changedSchema, 201: changedSchema },
    handler: async ({ stoa, caller, params, body, ifVersion, ifExists, idempotency, request }) => {
      const options = { ifVersion: expected(ifVersion, ifExists), idempotency };
      if (request.headers['content-type']?.toLowerCase().startsWith(mergePatchType) === true) {
        return written(await stoa.data.mergePatch(caller, params.ns, params.key, body, options));
      }
      const { increment, append = [] } = validate(changeDocumentSchema, body);
      if (increment !== undefined)
        return written(await stoa.data.increment(caller, params.ns, params.key, increment, options));
      return written(await stoa.data.append(caller, params.ns, params.key, append, options));
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/data/{ns}/{key}',
    summary: 'Deletes a document',
    tags: ['data'],
    principals: authenticated,
    versioned: true,
    repeatable: true,
    params: ofDocument,
    answers: { 204: null },
    handler: async ({ stoa, caller, params, ifVersion, ifExists, idempotency }) => {
      const options = { ifVersion: expected(ifVersion, ifExists), idempotency };
      if (!(await stoa.data.delete(caller, params.ns, params.key, options))) throw missing(params);
      return answer(204);
    },
  }),
];

function expected(ifVersion: number | undefined, ifExists: boolean): ExpectedVersion {
  return ifExists ? 'any' : (ifVersion ?? null);
}

/** 201 for a document that was not there before. */
function written<Result extends WriteResult>({
  created,
  ...body
}: Result): ReturnType<typeof answer<Omit<Result, 'created'>>> {
  return answer(created ? 201 : 200, body);
}

/** The texts of records that a backend keeps in memory: they last as long as those do. */
const texts = new WeakMap<DocumentRecord, JsonText>();

function documentAnswer(params: { ns: string; key: string }, record: DocumentRecord | undefined): JsonText {
  if (record === undefined) throw missing(params);
  const known = texts.get(record);
  if (known !== undefined) return known;
  const text = new JsonText(toDocumentJson(record), record.version);
  texts.set(record, text);
  return text;
}

function missing({ ns, key }: { ns: string; key: string }): StoaError {
  return new StoaError('not_found', `There is no document under the key "${key}" in the namespace "${ns}".`);
}
