/** Tokens as the API returns them, and the body of a request that creates one. */
import { z } from 'zod';
import { isoTime, isoTimeOrNull } from '../core/text/iso-time.js';
import type { TokenRecord } from './tokens.js';

const time = z.iso.datetime();

export const tokenScopesSchema = z
  .object({
    write: z
      .boolean()
      .meta({ description: 'Whether the token can write. A token without it can only read.' }),
    namespaces: z
      .array(z.string())
      .min(1)
      .nullable()
      .meta({ description: 'Namespaces of the data store that the token can access; null means all.' }),
  })
  .meta({ id: 'TokenScopes' });

export const tokenSchema = z
  .object({
    token_id: z.string(),
    user: z.string(),
    name: z.string(),
    scopes: tokenScopesSchema,
    created_at: time,
    expires_at: time.nullable(),
    last_used_at: time
      .nullable()
      .meta({ description: 'When the token was last used, at most a minute late.' }),
  })
  .meta({ id: 'Token' });

export type Token = z.output<typeof tokenSchema>;

export const createdTokenSchema = tokenSchema
  .extend({ token: z.string().meta({ description: 'The secret. It is shown only once and is not stored.' }) })
  .meta({ id: 'CreatedToken' });

export type CreatedToken = z.output<typeof createdTokenSchema>;

export const createTokenSchema = z
  .strictObject({
    name: z.string().default('').meta({ description: 'What the token is for.' }),
    expires_in: z
      .int()
      .min(1)
      .max(10 * 366 * 24 * 3600)
      .optional()
      .meta({ description: 'Seconds until it expires.' }),
    expires_at: time.optional().meta({ description: 'When it expires; instead of `expires_in`.' }),
    scopes: tokenScopesSchema
      .partial()
      .strict()
      .default({})
      .meta({ description: 'What the token can do. The default is to read and write all data of the user.' }),
  })
  .refine(({ expires_in, expires_at }) => expires_in === undefined || expires_at === undefined, {
    message: 'The request has both expires_in and expires_at. Send one of them.',
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
    created_at: isoTime(record.createdAtMs),
    expires_at: isoTimeOrNull(record.expiresAtMs),
    last_used_at: isoTimeOrNull(lastUsedAtMs ?? null),
  };
}
