/** What `stoa doctor` checks of tokens: the list of each user, the last uses, the timers of expiry. */
import { messageOf } from '../../../core/errors.js';
import type { TokenRecord } from '../../../identity/tokens.js';
import { type Check, type Damage, beyondRepair, surplusRow } from '../kernel/inspect/doctor.js';
import type { Entry } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { inspectTimer } from './timers.js';
import { expiryTimer, tokenFamilies as families, tokenRecords } from '../identity/identity.js';
import { userKeyBytes } from '../../../registry/layout/keys.js';
import { inspectIndexRow, inspectRows } from './indexes.js';

export const identityChecks: readonly Check[] = [
  { family: families.tokens, inspect: inspectToken },
  { family: families.tokensByUser, inspect: inspectTokenOfUser },
  { family: families.tokenUses, inspect: inspectTokenUse },
];

function* inspectToken(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const record = readRecord(value);
  if (typeof record === 'string') {
    yield beyondRepair(families.tokens, key, 'unreadable', record);
    return;
  }
  if (record.id !== key.toString('hex')) {
    yield beyondRepair(families.tokens, key, 'wrong', 'The id in the record differs from the id in its key.');
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

function* inspectTokenOfUser(reader: Reader, entry: Entry): Generator<Damage> {
  const stored = reader.get(families.tokens, entry.key.subarray(userKeyBytes));
  const record = stored === undefined ? undefined : readRecord(stored);
  // A record that cannot be read was reported with its own family.
  if (typeof record === 'string') return;
  const rows = record === undefined ? undefined : tokenRecords.rowsOf(record);
  yield* inspectIndexRow(families.tokensByUser, entry, rows, 'token');
}

function* inspectTokenUse(reader: Reader, { key, value }: Entry): Generator<Damage> {
  if (reader.get(families.tokens, key) === undefined)
    yield surplusRow(families.tokenUses, key, 'dangling', 'The token does not exist.');
  else if (!/^[0-9]+$/.test(value.toString()))
    yield surplusRow(families.tokenUses, key, 'wrong', 'The time when a token was last used is invalid.');
}

/** The record, or the reason why it cannot be read. */
function readRecord(value: Buffer): TokenRecord | string {
  try {
    // The family contains nothing else.
    return JSON.parse(value.toString()) as TokenRecord;
  } catch (error) {
    return `The record is not JSON: ${messageOf(error)}.`;
  }
}
