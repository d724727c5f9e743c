/** The fields of a write, the same for a request and for an operation of a commit. */
import { z } from 'zod';

export const json = z.unknown().describe('Any JSON');
export const metadata = z
  .record(z.string(), z.unknown())
  .describe('Facts about the value, merged member by member into the stored metadata');
export const ttl = z
  .number()
  .positive()
  .nullable()
  .optional()
  .describe('Seconds until the document expires. Default: the document never expires');
export const expiresAt = z
  .string()
  .nullable()
  .optional()
  .describe('When the document expires, instead of `ttl`');

export const index = z
  .boolean()
  .optional()
  .describe('False: searches for words do not find the document, until a write says true');

export const setDocumentSchema = z
  .strictObject({ value: json, metadata: metadata.optional(), ttl, expiresAt, index })
  .meta({ id: 'SetDocument' });
