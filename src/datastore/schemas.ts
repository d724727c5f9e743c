/** What writes a document: the request alone and the operation of a commit take the same. */
import { z } from 'zod';

export const json = z.unknown().describe('Any JSON');
export const metadata = z
  .record(z.string(), z.unknown())
  .describe('Facts about the value; merged member by member into what is there');
export const ttl = z
  .number()
  .positive()
  .nullable()
  .optional()
  .describe('Seconds until the document expires; without it, it never does');
export const expiresAt = z
  .string()
  .nullable()
  .optional()
  .describe('The moment at which it expires, instead of `ttl`');

export const setDocumentSchema = z
  .strictObject({ value: json, metadata: metadata.optional(), ttl, expiresAt })
  .meta({ id: 'SetDocument' });
