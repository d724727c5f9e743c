/** Tokens as the wire shows them, and what a request to make one may say. */
import { z } from 'zod';
import type { TokenRecord } from './tokens.js';

/** The last millisecond of the year 9999: homes write times with years of four digits. */
const lastTimeMs = 253_402_300_799_999;

const timeMs = z.int().min(0).describe('Unix time in milliseconds');

export const tokenScopesSchema = z
  .object({
    write: z.boolean().meta({ description: 'Without it the token can only read.' }),
    namespaces: z
      .array(z.string())
      .min(1)
      .nullable()
      .meta({ description: 'Namespaces of the data store that it reaches; null means all.' }),
  })
  .meta({ id: 'TokenScopes' });

export const tokenSchema = z
  .object({
    token_id: z.string(),
    user: z.string(),
    name: z.string(),
    scopes: tokenScopesSchema,
    created_at: timeMs,
    expires_at: timeMs.nullable(),
    last_used_at: timeMs.nullable().meta({ description: 'Follows within a minute.' }),
  })
  .meta({ id: 'Token' });

export type Token = z.output<typeof tokenSchema>;

export const createdTokenSchema = tokenSchema
  .extend({ token: z.string().meta({ description: 'The secret. It is shown this once and not kept.' }) })
  .meta({ id: 'CreatedToken' });

export type CreatedToken = z.output<typeof createdTokenSchema>;

export const createTokenSchema = z
  .strictObject({
    name: z.string().default('').meta({ description: 'What it is for.' }),
    expires_in: z
      .int()
      .min(1)
      .max(10 * 366 * 24 * 3600)
      .optional()
      .meta({ description: 'Seconds until it expires.' }),
    expires_at: timeMs
      .max(lastTimeMs)
      .optional()
      .meta({ description: 'When it expires; instead of `expires_in`.' }),
    scopes: tokenScopesSchema
      .partial()
      .strict()
      .default({})
      .meta({ description: 'Everything of the user unless narrowed.' }),
  })
  .refine(({ expires_in, expires_at }) => expires_in === undefined || expires_at === undefined, {
    message: 'expires_in and expires_at exclude each other.',
  })
  .meta({ id: 'CreateToken' });

export type CreateTokenInput = z.input<typeof createTokenSchema>;

export const tokenIdPattern = /^[0-9a-f]{20}$/;

export function tokenView(record: TokenRecord, lastUsedAtMs: number | undefined): Token {
  return {
    token_id: record.id,
    user: record.user,
    name: record.name,
    scopes: {
      write: record.scopes.write,
      namespaces: record.scopes.namespaces === null ? null : [...record.scopes.namespaces],
    },
    created_at: record.createdAtMs,
    expires_at: record.expiresAtMs,
    last_used_at: lastUsedAtMs ?? null,
  };
}
