/** The handlers of the data store. */
import { data, documents, mergePatchType } from '../../api/datastore/operations.js';
import { changeDocumentSchema, dataSchemas, documentSchemas } from '../../api/datastore/schemas.js';
import type { DocumentRecord, KeySummary } from '../../datastore/model.js';
import type { NamespaceSettings } from '../../datastore/namespaces/namespace-settings.js';
import type { ExpectedVersion, WriteResult } from '../../datastore/port.js';
import { toDocumentJson } from '../../datastore/documents/seed-document.js';
import { StoaError } from '../../core/errors.js';
import type { Page } from '../../core/paging.js';
import type { Stoa } from '../../index.js';
import { importDocumentFile } from '../../transfer/document-file.js';
import { validate } from '../../core/validation/validate.js';
import { disconnectionOf } from '../request/disconnection.js';
import { withProgress } from '../answer/progress-stream.js';
import { JsonText, answer, routesOf } from '../route.js';
import { positioned } from './positioned.js';

/** The answer has its own list of names. */
function settingsAnswer({ vectors }: Stoa, { embed_fields: fields, ...settings }: NamespaceSettings) {
  return { ...settings, embed_fields: fields === null ? null : [...fields], embedder: vectors.embedder };
}

const valueRoutes = routesOf('data', data, dataSchemas, {
  listNamespaces: ({ stoa, caller, query, reply }) =>
    stoa.data.listNamespaces(caller, { ...query, signal: disconnectionOf(reply) }),
  getSettings: async ({ stoa, caller, params }) =>
    settingsAnswer(stoa, await stoa.namespaceSettings.read(caller, params.namespace)),
  changeSettings: async ({ stoa, caller, params, body }) =>
    settingsAnswer(stoa, await stoa.namespaceSettings.change(caller, params.namespace, body)),
  list: ({ stoa, caller, params, query: { values, ...asked }, reply }) =>
    positioned<Page<KeySummary> | JsonText>(stoa, async () => {
      const page = { ...asked, signal: disconnectionOf(reply) };
      if (values !== true) return stoa.data.listKeys(caller, params.namespace, page);
      return pageText(await stoa.data.listDocuments(caller, params.namespace, page));
    }),
  batch: ({ stoa, caller, params, body, idempotency }) =>
    stoa.data.batch(caller, params.namespace, body, idempotency),
  clear: async ({ stoa, caller, params, reply }) => ({
    deleted: await stoa.data.clear(caller, params.namespace, { signal: disconnectionOf(reply) }),
  }),
  get: ({ stoa, caller, params }) => {
    const found = stoa.data.getRecord(caller, params.namespace, params.key);
    return found instanceof Promise
      ? found.then((record) => documentAnswer(params, record))
      : documentAnswer(params, found);
  },
  set: async ({ stoa, caller, params, body, ifVersion, ifExists, idempotency }) => {
    const { value, ...options } = body;
    return written(
      await stoa.data.set(caller, params.namespace, params.key, value, {
        ...options,
        ifVersion: expected(ifVersion, ifExists),
        idempotency,
      }),
    );
  },
  change: async ({
    stoa,
    caller,
    params: { namespace, key },
    body,
    ifVersion,
    ifExists,
    idempotency,
    request,
  }) => {
    const options = { ifVersion: expected(ifVersion, ifExists), idempotency };
    if (request.headers['content-type']?.toLowerCase().startsWith(mergePatchType) === true)
      return written(await stoa.data.mergePatch(caller, namespace, key, body, options));
    const { increment, append = [] } = validate(changeDocumentSchema, body);
    if (increment !== undefined)
      return written(await stoa.data.increment(caller, namespace, key, increment, options));
    return written(await stoa.data.append(caller, namespace, key, append, options));
  },
  delete: async ({ stoa, caller, params, ifVersion, ifExists, idempotency }) => {
    const options = { ifVersion: expected(ifVersion, ifExists), idempotency };
    if (!(await stoa.data.delete(caller, params.namespace, params.key, options))) throw missing(params);
    return answer(204);
  },
});

const documentRoutes = routesOf('documents', documents, documentSchemas, {
  list: async ({ stoa, caller, query }) => pageText(await stoa.data.transfer.exportPage(caller, query)),
  import: ({ stoa, caller, body }) =>
    stoa.data.transfer.import(caller, body.documents, { dryRun: body.dry_run === true }),
  importLines: async ({ stoa, caller, query, request, reply, streams }) => {
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
});

export const dataRoutes = [...valueRoutes, ...documentRoutes];

function pageText({ items, next_cursor }: Page<DocumentRecord>): JsonText {
  return new JsonText(
    `{"items":[${items.map(toDocumentJson).join(',')}],"next_cursor":${JSON.stringify(next_cursor)}}`,
  );
}

function expected(ifVersion: number | undefined, ifExists: boolean): ExpectedVersion {
  return ifExists ? 'any' : (ifVersion ?? null);
}

/** 201 for a new document. */
function written<Result extends WriteResult>({
  created,
  ...body
}: Result): ReturnType<typeof answer<Omit<Result, 'created'>>> {
  return answer(created ? 201 : 200, body);
}

function documentAnswer(
  params: { namespace: string; key: string },
  record: DocumentRecord | undefined,
): JsonText {
  if (record === undefined) throw missing(params);
  return new JsonText(toDocumentJson(record), record.version);
}

function missing({ namespace, key }: { namespace: string; key: string }): StoaError {
  return new StoaError('not_found', `The namespace "${namespace}" has no document with the key "${key}".`);
}
