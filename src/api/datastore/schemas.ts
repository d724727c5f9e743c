/** The schemas of the data store's operations. */
import { z } from 'zod';
import { dataLimits } from '../../core/settings/limits/data.js';
import { expiresAt, index, json, metadata, setDocumentSchema, ttl } from '../../datastore/schemas.js';
import { documentReportSchema } from '../../transfer/schemas.js';
import { pageOf, pageQuery, pathSegment, progressAbout, queryBoolean } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import { type data, type documents, mergePatchType } from './operations.js';
import { groupedDigits } from '../../core/text/grouped-digits.js';

const time = z.string().describe('ISO 8601 in UTC, with `Z`');
const agentName = z.string().nullable();
const inNamespace = z.object({ namespace: pathSegment });
const ofDocument = z.object({ namespace: pathSegment, key: pathSegment });

/** `increment` or `append`. A merge patch has its own content type. */
export const changeDocumentSchema = z
  .strictObject({
    increment: z.number().optional().describe('Added to the stored number, or to 0'),
    append: z.array(json).optional().describe('Appended to the stored list, or to an empty one'),
  })
  .refine(({ increment, append }) => (increment === undefined) !== (append === undefined), {
    message: 'Send either increment or append',
  })
  .meta({ id: 'ChangeDocument' });

const batchSchema = z
  .strictObject({
    set: z.record(z.string(), json).optional().describe('Values by key'),
    get: z.array(z.string()).optional().describe('Keys to read, after the writes'),
    delete: z.array(z.string()).optional(),
    metadata: metadata.optional().describe('Merged into the metadata of every key in `set`'),
    ttl,
    expiresAt,
    index,
  })
  .meta({ id: 'DataBatch' });

const documentSchema = z
  .object({
    _id: z.string().describe('`{userId}:{namespace}:{URL-safe base64 of the key}`'),
    userId: z.string(),
    namespace: z.string(),
    key: z.string(),
    value: json,
    metadata: z.record(z.string(), z.unknown()),
    createdByAgent: agentName,
    updatedByAgent: agentName,
    lastAccessedByAgent: agentName,
    accessCount: z.int().describe('Reads by agents'),
    createdAt: time,
    updatedAt: time,
    lastAccessedAt: time.nullable(),
    version: z.int().describe('1 for a new document; each write adds 1'),
    expiresAt: time.nullable(),
    indexed: z.boolean().optional().describe('False: searches for words do not find it'),
  })
  .meta({ id: 'Document' });

const keySummarySchema = z
  .object({
    key: z.string(),
    version: z.int(),
    sizeBytes: z.int().describe("Bytes of the value's JSON"),
    updatedAt: time,
  })
  .meta({ id: 'DocumentSummary' });

const writtenSchema = keySummarySchema.meta({ id: 'WrittenDocument' });

const changedSchema = keySummarySchema
  .extend({ value: json.describe('The value after the change') })
  .meta({ id: 'ChangedDocument' });

const namespaceSchema = z
  .object({
    namespace: z.string(),
    count: z.int(),
    sizeBytes: z.int(),
    agents: z
      .array(z.string())
      .describe('Every agent that wrote or read the namespace since it was last cleared'),
    updatedAt: time,
  })
  .meta({ id: 'Namespace' });

const settingsAbout = {
  index: 'Whether searches find documents by their words',
  embed: 'Whether documents get vectors, so that searches with `mode=vector` find them',
  embed_fields: 'The members of a value that are embedded, as `text` or `message.body`; null for all text',
};

const settingsSchema = z
  .object({
    index: z.boolean().describe(settingsAbout.index),
    embed: z.boolean().describe(settingsAbout.embed),
    embed_fields: z.array(z.string()).nullable().describe(settingsAbout.embed_fields),
    embedder: z
      .object({ model: z.string(), dimensions: z.int() })
      .nullable()
      .describe('What makes the vectors; null if the server has no embedder'),
  })
  .meta({ id: 'NamespaceSettings' });

const changeSettingsSchema = z
  .strictObject({
    index: z.boolean().optional().describe(settingsAbout.index),
    embed: z.boolean().optional().describe(settingsAbout.embed),
    embed_fields: z
      .array(z.string().min(1))
      .min(1)
      .nullable()
      .optional()
      .describe(settingsAbout.embed_fields),
  })
  .meta({ id: 'ChangeNamespaceSettings' });

const batchAnswerSchema = z
  .object({
    set: z.record(
      z.string(),
      z.union([
        z.object({ version: z.int() }),
        z.object({ error: z.object({ code: z.string(), detail: z.string() }) }),
      ]),
    ),
    values: z.record(z.string(), json).describe('Values by key; keys without a document are left out'),
    deleted: z.int().describe('Documents that existed and were deleted'),
  })
  .meta({ id: 'DataBatchAnswer' });

const clearedSchema = z.object({ deleted: z.int() }).meta({ id: 'Cleared' });

const importSchema = z
  .strictObject({
    documents: z
      .array(z.record(z.string(), z.unknown()))
      .min(1)
      .max(dataLimits.dataBatchKeysMax.default)
      .describe(
        "In the seed's shape: `userId`, `namespace`, `key`, `value`, `createdAt`, and the other fields " +
          'if they have values',
      ),
    dry_run: z.boolean().optional().describe('Only validate the documents'),
  })
  .meta({ id: 'ImportDocuments' });

const importAnswerSchema = z
  .object({
    imported: z.int(),
    oversized: z.array(z.string()).describe('Ids of imported documents whose value exceeds the limit'),
  })
  .meta({ id: 'ImportedDocuments' });

export const dataSchemas = {
  listNamespaces: { query: z.object(pageQuery), answers: { 200: pageOf(namespaceSchema) } },
  getSettings: { params: inNamespace, answers: { 200: settingsSchema } },
  changeSettings: {
    description: 'Members that are left out stay as they are. Stored documents follow in the background.',
    params: inNamespace,
    body: changeSettingsSchema,
    answers: { 200: settingsSchema },
  },
  list: {
    description:
      'With `values=1` the items are whole documents, and each counts as read by the agent. ' +
      '`Stoa-Position` is the position in the change feed from which to follow later changes.',
    params: inNamespace,
    query: z.object({
      ...pageQuery,
      prefix: z.string().optional().meta({ description: 'Only keys that begin with this text.' }),
      values: queryBoolean().optional().meta({ description: 'List complete documents instead of keys.' }),
    }),
    answers: { 200: pageOf(z.union([documentSchema, keySummarySchema])) },
  },
  batch: {
    description:
      'First the writes, then the reads. The writes are atomic if the backend supports it. At most ' +
      `${groupedDigits(dataLimits.dataBatchKeysMax.default)} keys and ${dataLimits.dataBatchBytesMax.default / 1024 ** 2} MiB of values.`,
    params: inNamespace,
    body: batchSchema,
    answers: { 200: batchAnswerSchema },
  },
  clear: { params: inNamespace, answers: { 200: clearedSchema } },
  get: { params: ofDocument, answers: { 200: documentSchema } },
  set: {
    params: ofDocument,
    body: setDocumentSchema,
    answers: { 200: writtenSchema, 201: writtenSchema },
  },
  change: {
    description: `\`{increment}\` or \`{append}\` as application/json; a JSON merge patch of the value (RFC 7396) only as ${mergePatchType}. A missing document counts as 0, an empty list or no value.`,
    params: ofDocument,
    body: z.unknown().meta({ description: 'ChangeDocument, or a merge patch with its own content type.' }),
    answers: { 200: changedSchema, 201: changedSchema },
  },
  delete: { params: ofDocument, answers: { 204: null } },
} satisfies SchemasOf<typeof data>;

export const documentSchemas = {
  list: {
    description:
      "Exports the caller's documents; the operator without `Stoa-User` exports those of all users. An " +
      'export does not count as a read.',
    query: z.object(pageQuery),
    answers: { 200: pageOf(documentSchema) },
  },
  import: {
    description:
      'Times, counts, versions and the names of agents are kept. Nothing is written unless every ' +
      'document is valid.',
    body: importSchema,
    answers: { 200: importAnswerSchema },
  },
  importLines: {
    description:
      'All lines are validated and counted against the quotas before the first document is written. ' +
      `Existing documents are replaced. ${progressAbout}`,
    query: z.object({
      dry_run: z.stringbool().default(false).meta({ description: 'Only validate the documents.' }),
      keep_going: z
        .stringbool()
        .default(false)
        .meta({ description: 'Skip invalid lines instead of refusing the file.' }),
    }),
    answers: { 200: documentReportSchema },
  },
} satisfies SchemasOf<typeof documents>;
