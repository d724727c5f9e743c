/**
 * Keeps missing documents missing until a transaction ends. A row that does not exist cannot be locked. So
 * the transaction inserts it with version 0 and deletes it again: until the transaction ends, every insert of
 * the same key waits for it, also in a plain set or in another program. No one else ever sees the row, and
 * nothing of it is left, also after a rollback.
 *
 * Rejected: a shared advisory lock of the key in every plain set. It would exclude only programs that take it.
 */
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import type { Scope } from '../../../datastore/model.js';
import type { Work } from '../write/work.js';

/**
 * The write runs again if another transaction has created one of the documents meanwhile. No key may be named
 * twice. Both statements share a round trip with the next ones.
 */
export function keepMissing(work: Work, { user, namespace }: Scope, keys: readonly string[]): void {
  if (keys.length === 0) return;
  const parameters = [user, namespace, keys.toSorted(compareCodePoints)];
  work.send(
    `WITH inserted AS (
        INSERT INTO agent_data_store (_id, "userId", namespace, key, value, version)
          SELECT '', $1, $2, missing, 'null', 0 FROM unnest($3::text[]) AS missing
          ON CONFLICT ("userId", namespace, key) DO NOTHING RETURNING 1)
      SELECT agent_data_store_require_rows(count(*), ${keys.length}) FROM inserted`,
    parameters,
  );
  work.send(
    `DELETE FROM agent_data_store
      WHERE "userId" = $1 AND namespace = $2 AND key = ANY ($3::text[]) AND version = 0`,
    parameters,
  );
}
