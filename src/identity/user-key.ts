/** The 32 bytes under which a user's things are stored and sharded. */
import { StoaError } from '../core/errors.js';
import { blake3 } from '../core/blake3.js';
import type { Limits } from '../core/settings/limits.js';
import { limitError } from '../core/settings/exceeds.js';
import { invalidCharacterIn } from '../core/text/invalid-character.js';

const hex64 = /^[0-9a-f]{64}$/i;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Keys of users who called lately: every request asks for one, and hashing costs as much as a read. */
const lately = new Map<string, Buffer>();
/** The spellings of users who called lately, for the same reason. */
const spellings = new Map<string, string>();
const latelyMax = 10_000;

/**
 * 64 hex digits are the bytes themselves; a UUID is hashed as its 16 bytes; any other name as its UTF-8 text.
 */
export function userKey(user: string): Buffer {
  const known = lately.get(user);
  if (known !== undefined) return known;
  const key = makeKey(user);
  if (lately.size >= latelyMax) lately.clear();
  lately.set(user, key);
  return key;
}

function makeKey(user: string): Buffer {
  if (hex64.test(user)) return Buffer.from(user, 'hex');
  if (uuid.test(user)) return blake3(Buffer.from(user.replaceAll('-', ''), 'hex'));
  return blake3(Buffer.from(user, 'utf8'));
}

/** The readable id in its one spelling: hex and UUIDs in lower case. Throws for an invalid user id. */
export function checkUserId(user: string, limits: Limits): string {
  const known = spellings.get(user);
  if (known !== undefined && Buffer.byteLength(user) <= limits.userIdBytesMax) return known;
  const spelling = spellingOf(user, limits);
  if (spellings.size >= latelyMax) spellings.clear();
  spellings.set(user, spelling);
  return spelling;
}

function spellingOf(user: string, limits: Limits): string {
  if (user === '') throw invalid('The user id is empty.');
  const received = Buffer.byteLength(user);
  if (received > limits.userIdBytesMax)
    throw limitError('invalid_request', {
      subject: 'The user id',
      unit: 'bytes',
      limit: 'userIdBytesMax',
      limits,
      received,
      advice: 'Use a shorter id',
      details: { field: 'user' },
    });
  const character = invalidCharacterIn(user);
  if (character !== undefined) throw invalid(`The user id contains ${character}.`);
  return hex64.test(user) || uuid.test(user) ? user.toLowerCase() : user;
}

function invalid(sentence: string): StoaError {
  return new StoaError('invalid_request', sentence, { details: { field: 'user' } });
}
