/** What the data store takes and answers on the wire: the one source for validation, OpenAPI, MCP and the CLI. */
import { z } from 'zod';

const time = z.string().describe('ISO 8601 in UTC, with `Z`');
const json = z.unknown().describe('Any JSON');
const metadata = z
  .record(z.string(), z.unknown())
  .describe('Facts about the value; merged member by member into what is there');
const ttl = z
  .number()
  .positive()
  .nullable()
  .optional()
  .describe('Seconds until the document expires; without it, it never does');
const expiresAt = z
  .string()
  .nullable()
  .optional()
  .describe('The moment at which it expires, instead of `ttl`');
const agentName = z.string().nullable();

export const setDocumentSchema = z
  .strictObject({ value: json, metadata: metadata.optional(), ttl, expiresAt })
  .meta({ id: 'SetDocument' });

/** `increment` or `append`; a merge patch has a content type of its own. */
export const changeDocumentSchema = z
  .strictObject({
    increment: z.number().optional().describe('Added to the number that is there, or to 0'),
    append: z
      .array(json)
      .optional()
      .describe('Added at the end of the list that is there, or of an empty one'),
  })
  .refine(({ increment, append }) => (increment === undefined) !== (append === undefined), {
    message: 'Give increment or append, one of them',
  })
  .meta({ id: 'ChangeDocument' });

export const batchSchema = z
  .strictObject({
    set: z.record(z.string(), json).optional().describe('Values by key'),
    get: z.array(z.string()).optional().describe('Keys to read, after the writes'),
    delete: z.array(z.string()).optional(),
    metadata: metadata.optional().describe('Merged into the metadata of every key in `set`'),
    ttl,
    expiresAt,
  })
  .meta({ id: 'DataBatch' });

export const documentSchema = z
  .object({
    _id: z.string().describe('`{userId}:{namespace}:{URL-safe base64 of the key}`'),
    userId: z.string(),
    namespace: z.string(),
    key: z.string(),
    value: json,
    metadata: z.record(z.string(), z.unknown()),
    createdByAgent: agentName,
    lastAccessedByAgent: agentName,
    accessCount: z.int().describe('Reads by agents'),
    createdAt: time,
    updatedAt: time,
    lastAccessedAt: time.nullable(),
    version: z.int().describe('1 when new, one more with every write'),
    expiresAt: time.nullable(),
  })
  .meta({ id: 'Document' });

export const keySummarySchema = z
  .object({
    key: z.string(),
    version: z.int(),
    sizeBytes: z.int().describe("Bytes of the value's JSON"),
    updatedAt: time,
  })
  .meta({ id: 'DocumentSummary' });

export const writtenSchema = keySummarySchema.meta({ id: 'WrittenDocument' });

export const changedSchema = keySummarySchema
  .extend({ value: json.describe('The value after the change') })
  .meta({ id: 'ChangedDocument' });

export const namespaceSchema = z
  .object({
    namespace: z.string(),
    count: z.int(),
    sizeBytes: z.int(),
    agents: z.array(z.string()).describe('Every agent that wrote or read there since it was last cleared'),
    updatedAt: time,
  })
  .meta({ id: 'Namespace' });

export const batchAnswerSchema = z
  .object({
    set: z.record(
      z.string(),
      z.union([
        z.object({ version: z.int() }),
        z.object({ error: z.object({ code: z.string(), detail: z.string() }) }),
      ]),
    ),
    values: z.record(z.string(), json).describe('Values by key; keys without a document are left out'),
    deleted: z.int().describe('Documents that were there and are gone'),
  })
  .meta({ id: 'DataBatchAnswer' });

export const clearedSchema = z.object({ deleted: z.int() }).meta({ id: 'Cleared' });

export const importSchema = z
  .strictObject({
    documents: z
      .array(z.record(z.string(), z.unknown()))
      .min(1)
      .max(1_000)
      .describe(
        "In the seed's shape: `userId`, `namespace`, `key`, `value`, `createdAt`, and the rest where there is any",
      ),
    dry_run: z.boolean().optional().describe('Only check them'),
  })
  .meta({ id: 'ImportDocuments' });

export const importAnswerSchema = z
  .object({
    imported: z.int(),
    oversized: z
      .array(z.string())
      .describe('Ids of documents over the value limit, which were imported all the same'),
  })
  .meta({ id: 'ImportedDocuments' });

export const importReportSchema = z
  .object({
    dry_run: z.boolean(),
    lines: z.int(),
    skipped: z.int().describe('Empty lines and design documents of CouchDB'),
    imported: z.int(),
    bad: z.array(z.object({ line: z.int(), reason: z.string() })),
    bad_total: z.int(),
    oversized: z
      .array(z.int())
      .describe('Lines with documents over the value limit, which are imported all the same'),
    oversized_total: z.int(),
  })
  .meta({ id: 'DocumentLinesReport' });

/** A page of a list. */
export function pageOf<Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; next_cursor: z.ZodNullable<z.ZodString> }> {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}
