/** The 32 bytes under which a user's things are stored and sharded. */
import { StoaError } from '../core/errors.js';
import { blake3 } from '../core/blake3.js';

const hex64 = /^[0-9a-f]{64}$/i;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

/** Keys of users who called lately: every request asks for one, and hashing costs as much as a read. */
const lately = new Map<string, Buffer>();
/** The spellings of users who called lately, for the same reason. */
const spellings = new Map<string, string>();
const latelyMax = 10_000;

/** 64 hex digits are the bytes themselves; a UUID is hashed as its 16 bytes; any other name as its UTF-8 text. */
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

/** The readable id in its one spelling: hex and UUIDs in lower case. Refuses what cannot name a user. */
export function checkUserId(user: string, bytesMax: number): string {
  const known = spellings.get(user);
  if (known !== undefined && Buffer.byteLength(user) <= bytesMax) return known;
  const spelling = spellingOf(user, bytesMax);
  if (spellings.size >= latelyMax) spellings.clear();
  spellings.set(user, spelling);
  return spelling;
}

function spellingOf(user: string, bytesMax: number): string {
  const bytes = Buffer.byteLength(user);
  if (bytes < 1 || bytes > bytesMax) {
    throw new StoaError('invalid_request', `A user id has 1 to ${bytesMax} bytes; this one has ${bytes}.`, {
      details: { field: 'user' },
    });
  }
  if (controlCharacter.test(user) || !user.isWellFormed()) {
    throw new StoaError('invalid_request', 'A user id has no control characters and no lone surrogates.', {
      details: { field: 'user' },
    });
  }
  return hex64.test(user) || uuid.test(user) ? user.toLowerCase() : user;
}
