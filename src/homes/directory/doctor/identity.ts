/** What `stoa doctor` checks of tokens: the list of each user, the last uses, the timers of expiry. */
import { userKeyBytes } from '../../../registry/layout/keys.js';
import type { Damage, ExaminedRow } from '../kernel/inspect/damage.js';
import type { Check } from '../kernel/inspect/doctor.js';
import {
  decodeToken,
  expiryTimer,
  readToken,
  tokenFamilies as families,
  tokenRecords,
} from '../identity/identity.js';
import { indexCheck, inspectRows } from './indexes.js';
import { inspectTimer } from './timers.js';

export const identityChecks: readonly Check[] = [
  { family: families.tokens, inspect: inspectToken },
  indexCheck(families.tokensByUser, 'token', tokenRecords, ({ reader, key }) =>
    readToken(reader, key.subarray(userKeyBytes)),
  ),
  { family: families.tokenUses, inspect: inspectTokenUse },
];

function* inspectToken(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  const record = decodeToken(row.value);
  if (record.id !== key.toString('hex')) {
    yield row.beyondRepair('The id in the record differs from the id in its key.');
    return;
  }
  yield* inspectRows(reader, tokenRecords.rowsOf(record), `the token ${record.id}`);
  if (record.expiresAtMs !== null)
    yield* inspectTimer(
      reader,
      { atMs: record.expiresAtMs, kind: expiryTimer, reference: key },
      `The expiry timer of the token ${record.id} is missing.`,
    );
}

function* inspectTokenUse(row: ExaminedRow): Generator<Damage> {
  if (row.reader.get(families.tokens, row.key) === undefined) yield row.dangling('The token does not exist.');
  else if (!/^[0-9]+$/.test(row.value.toString()))
    yield row.surplus('The time when a token was last used is invalid.');
}
