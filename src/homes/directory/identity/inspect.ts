/** The rows of tokens as readable JSON, for `stoa inspect`. */
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
import { decodeToken, tokenFamilies as families } from './identity.js';

export const identityRows: RowDecoders = {
  [families.tokens]: (_key, value) => decodeToken(value),
  [families.tokensByUser]: (key) => ({
    user_id: key.toString('hex', 0, 32),
    token_id: key.toString('hex', 32),
  }),
  [families.tokenUses]: (key, value) => ({
    token_id: key.toString('hex'),
    last_used_at: new Date(Number(value.toString())).toISOString(),
  }),
};
