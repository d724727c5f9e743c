/** The rows of tokens as readable JSON, for `stoa inspect`. */
import { tokenFamilies as families } from './identity.js';

/**
 * The content of a row, or undefined for a family of another domain. Throws for a row that cannot be read.
 */
export function decodeIdentityEntry(family: string, key: Buffer, value: Buffer): unknown {
  switch (family) {
    case families.tokens:
      return JSON.parse(value.toString()) as unknown;
    case families.tokensByUser:
      return { user_id: key.toString('hex', 0, 32), token_id: key.toString('hex', 32) };
    case families.tokenUses:
      return {
        token_id: key.toString('hex'),
        last_used_at: new Date(Number(value.toString())).toISOString(),
      };
    default:
      return undefined;
  }
}
