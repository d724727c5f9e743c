/** What `stoa doctor` checks of tokens: the list of each user, the last uses, the timers of expiry. */
import { messageOf } from '../../../core/errors.js';
import type { TokenRecord } from '../../../identity/tokens.js';
import { userKey } from '../../../identity/user-key.js';
import { type Check, type Damage, beyondRepair, missingRow, surplusRow } from '../kernel/inspect/doctor.js';
import type { Entry } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { inspectTimer } from './timers.js';
import { expiryTimer, tokenFamilies as families, tokenOfUserKey } from '../identity/identity.js';

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
    yield beyondRepair(families.tokens, key, 'wrong', 'The record has another id than its key.');
    return;
  }
  const listed = tokenOfUserKey(record.user, key);
  if (reader.get(families.tokensByUser, listed) === undefined) {
    yield missingRow(
      families.tokensByUser,
      listed,
      `The token ${record.id} is not in the list of its user.`,
      (tx) => tx.put(families.tokensByUser, listed, Buffer.alloc(0)),
    );
  }
  if (record.expiresAtMs !== null)
    yield* inspectTimer(
      reader,
      { atMs: record.expiresAtMs, kind: expiryTimer, reference: key },
      `The token ${record.id} would not be removed when it expires.`,
    );
}

function* inspectTokenOfUser(reader: Reader, { key }: Entry): Generator<Damage> {
  const id = key.subarray(32);
  const stored = reader.get(families.tokens, id);
  if (stored === undefined) {
    yield surplusRow(families.tokensByUser, key, 'dangling', 'The token is not there.');
    return;
  }
  const record = readRecord(stored);
  // A record that cannot be read was reported with its own family.
  if (typeof record === 'string' || userKey(record.user).equals(key.subarray(0, 32))) return;
  yield surplusRow(families.tokensByUser, key, 'duplicate', 'The token belongs to another user.');
}

function* inspectTokenUse(reader: Reader, { key, value }: Entry): Generator<Damage> {
  if (reader.get(families.tokens, key) === undefined)
    yield surplusRow(families.tokenUses, key, 'dangling', 'The token is not there.');
  else if (!/^[0-9]+$/.test(value.toString()))
    yield surplusRow(families.tokenUses, key, 'wrong', 'The last use of a token is not a time.');
}

/** The record, or why it cannot be read. */
function readRecord(value: Buffer): TokenRecord | string {
  try {
    // The family holds nothing else.
    return JSON.parse(value.toString()) as TokenRecord;
  } catch (error) {
    return `The record is not JSON: ${messageOf(error)}.`;
  }
}
