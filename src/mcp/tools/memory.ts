/** Documents of the data store, as the memory of agents. */
import { z } from 'zod';
import { toDocument } from '../../datastore/documents/seed-document.js';
import { defaultNamespace } from '../../datastore/model.js';
import { StoaError } from '../../core/errors.js';
import { type FindMode, findModes } from '../../find/model.js';
import type { Limits } from '../../core/settings/limits.js';
import { cursor, ifVersion, json, limit, namespace, nextCursor, record } from './fields.js';
import { type ToolContext, defineTool } from '../tool.js';
import { limitError } from '../../core/settings/exceeds.js';

const key = z.string().describe('Such as "plan" or "user/ada/language"');

const remember = defineTool({
  name: 'remember',
  title: 'Remember',
  description:
    'Store a value under a key, for later and for other agents. Overwrites unless `how` says ' +
    'otherwise: append to a list, add to a number, merge into an object; each is one atomic step. Use ' +
    'if_version to change only what you have read.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  input: z.strictObject({
    key,
    value: json.describe('Any JSON'),
    namespace,
    how: z.enum(['set', 'append', 'add', 'merge']).default('set'),
    ttl_seconds: z.number().positive().optional().describe('Forget it after this time (set only)'),
    expires_at: z
      .string()
      .optional()
      .describe('Forget it at this time, ISO 8601, instead of ttl_seconds (set only)'),
    metadata: z.record(z.string(), z.unknown()).optional().describe('Facts about the value (set only)'),
    if_version: ifVersion,
  }),
  output: z.object({
    key: z.string(),
    version: z.int(),
    updatedAt: z.string(),
    value: json.optional().describe('After append, add, merge'),
  }),
  run: async (
    { stoa, caller },
    {
      key: name,
      value,
      namespace: ns,
      how,
      ttl_seconds: ttl,
      expires_at: expiresAt,
      metadata,
      if_version: version,
    },
  ) => {
    if (how === 'set')
      return written(
        await stoa.data.set(caller, ns, name, value, { ttl, expiresAt, metadata, ifVersion: version }),
      );
    if (ttl !== undefined || expiresAt !== undefined || metadata !== undefined)
      throw new StoaError(
        'invalid_request',
        `ttl_seconds, expires_at and metadata cannot be used with how "${how}", only with "set".`,
      );
    const options = { ifVersion: version };
    if (how === 'merge') return written(await stoa.data.mergePatch(caller, ns, name, value, options));
    if (how === 'append')
      return written(
        await stoa.data.append(caller, ns, name, Array.isArray(value) ? value : [value], options),
      );
    if (typeof value !== 'number')
      throw new StoaError('invalid_request', 'value is not a number, but how "add" needs a number.');
    return written(await stoa.data.increment(caller, ns, name, value, options));
  },
});

const recall = defineTool({
  name: 'recall',
  title: 'Recall',
  description:
    'Read what is stored under one key or several, or what answers a question (query). ' +
    'Keys that hold nothing come back in `missing`. Use it before you ask a person.',
  annotations: { readOnlyHint: true },
  input: z.strictObject({
    key: z.union([key, z.array(z.string()).min(1)]).optional(),
    query: z.string().min(1).optional().describe('Instead of key'),
    mode: z.enum(findModes).optional(),
    namespace: z.string().optional().describe('Default for a query: all'),
    limit,
  }),
  output: z.object({ items: z.array(record), missing: z.array(z.string()) }),
  run: async ({ stoa, caller, signal }, input) => {
    const { key: asked, query, namespace: ns } = input;
    if ((asked === undefined) === (query === undefined))
      throw new StoaError(
        'invalid_request',
        `The call has ${query === undefined ? 'neither key nor query' : 'both key and query'}.`,
        { fix: 'Send key to read the entry with that name, or query to search.' },
      );
    if (query !== undefined) return recalled({ stoa, caller, signal }, { ...input, query });
    const keys = [...new Set([asked ?? []].flat())];
    if (keys.length > stoa.limits.mcpKeysMax)
      throw limitError('too_large', {
        subject: 'The request',
        unit: 'keys',
        limit: 'mcpKeysMax',
        limits: stoa.limits,
        received: keys.length,
        advice: 'Recall fewer keys at once, or use list with values',
      });
    const found = new Map<string, DocumentRecord>();
    let leftBytes = stoa.limits.mcpAnswerBytesMax;
    for (const name of keys) {
      const entry = await stoa.data.getRecord(caller, ns ?? defaultNamespace, name);
      if (entry === undefined) continue;
      leftBytes -= entry.valueJson.length;
      if (leftBytes < 0 && found.size > 0) throw tooMuch(stoa.limits, [...found.keys()]);
      found.set(name, entry);
    }
    return { items: [...found.values()].map(documentItem), missing: keys.filter((name) => !found.has(name)) };
  },
});

const list = defineTool({
  name: 'list',
  title: 'List memory',
  description:
    'Without namespace: the namespaces and their sizes. With one: its keys in order, by prefix if ' +
    'given; values: true reads the values too. Use it to find out what is known.',
  annotations: { readOnlyHint: true },
  input: z.strictObject({
    namespace: z.string().optional(),
    prefix: z.string().optional(),
    values: z.boolean().optional(),
    limit,
    cursor,
  }),
  output: z.object({ items: z.array(record), next_cursor: nextCursor }),
  run: async ({ stoa, caller, signal }, { namespace: ns, prefix, values, ...asked }) => {
    const page = { ...asked, signal };
    if (ns === undefined) {
      if (prefix !== undefined || values !== undefined)
        throw new StoaError('invalid_request', 'The call has prefix or values, but no namespace.', {
          fix: 'Add namespace; it is "default" for keys stored without one.',
        });
      const { items, next_cursor } = await stoa.data.listNamespaces(caller, page);
      return { items: items.map((item) => ({ ...item })), next_cursor };
    }
    if (values !== true) {
      const { items, next_cursor } = await stoa.data.listKeys(caller, ns, { ...page, prefix });
      return { items: items.map((item) => ({ ...item })), next_cursor };
    }
    const { items, next_cursor } = await stoa.data.listDocuments(caller, ns, {
      ...page,
      prefix,
      bytesMax: stoa.limits.mcpAnswerBytesMax,
    });
    return { items: items.map(documentItem), next_cursor };
  },
});

const forget = defineTool({
  name: 'forget',
  title: 'Forget',
  description: 'Delete a key for every agent. deleted is false if the key did not exist.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  input: z.strictObject({ key, namespace, if_version: ifVersion }),
  output: z.object({ deleted: z.boolean() }),
  run: async ({ stoa, caller }, input) => ({
    deleted: await stoa.data.delete(caller, input.namespace, input.key, { ifVersion: input.if_version }),
  }),
});

export const memoryTools = [remember, recall, list, forget];

type DocumentRecord = Parameters<typeof toDocument>[0];

/** The fields of a document that an agent uses; the others would only fill its context. */
function documentItem(entry: DocumentRecord) {
  const {
    key: name,
    value,
    version,
    updatedAt,
    createdByAgent,
    updatedByAgent,
    expiresAt,
    metadata,
  } = toDocument(entry);
  return { key: name, value, version, updatedAt, createdByAgent, updatedByAgent, expiresAt, metadata };
}

/** The documents that answer a question, as many as fit into an answer. */
interface RecallQuery {
  readonly query: string;
  readonly mode?: FindMode | undefined;
  readonly namespace?: string | undefined;
  readonly limit?: number | undefined;
}

async function recalled(
  { stoa, caller, signal }: Pick<ToolContext, 'stoa' | 'caller' | 'signal'>,
  { query, mode, namespace, limit: wanted }: RecallQuery,
) {
  const page = await stoa.find.find(caller, {
    q: query,
    in: ['data'],
    mode,
    namespace,
    limit: wanted,
    signal,
  });
  const items = [];
  let leftBytes = stoa.limits.mcpAnswerBytesMax;
  for (const { namespace: ns = '', key: name = '', score } of page.items) {
    const entry = await stoa.data.getRecord(caller, ns, name);
    if (entry === undefined) continue;
    leftBytes -= entry.valueJson.length;
    if (leftBytes < 0 && items.length > 0) break;
    items.push({ ...documentItem(entry), namespace: ns, ...(score !== null && { score }) });
  }
  return { items, missing: [] };
}

function tooMuch(limits: Limits, fitting: readonly string[]): StoaError {
  return limitError('too_large', {
    subject: 'The total of the values under these keys',
    unit: 'bytes',
    limit: 'mcpAnswerBytesMax',
    limits,
    advice: 'Recall fewer keys at once, those in details.fitting first',
    details: { fitting },
  });
}

function written(result: { key: string; version: number; updatedAt: string; value?: unknown }) {
  const { key: name, version, updatedAt } = result;
  return { key: name, version, updatedAt, ...('value' in result && { value: result.value }) };
}
