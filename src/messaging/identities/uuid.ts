/** UUIDs: accepted in every spelling that clients use, converted to one spelling and to 16 bytes. */

/** The room that exists from the start, and the word that names it in a path. */
export const globalRoomId = '00000000-0000-0000-0000-000000000001';
export const globalRoomAlias = 'global';

const spellings = /^(?:urn:uuid:)?([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})$/i;
const braced = /^\{[0-9a-f-]{36}\}$/i;
const bare = /^[0-9a-f]{32}$/i;

/**
 * Lower case with dashes, or undefined for an invalid UUID. `urn:uuid:`, braces and bare digits are accepted.
 */
export function canonicalUuid(text: string): string | undefined {
  if (bare.test(text)) return uuidOfBytes(Buffer.from(text, 'hex'));
  const inner = braced.test(text) ? text.slice(1, -1) : text;
  const groups = spellings.exec(inner);
  return groups === null ? undefined : groups.slice(1).join('-').toLowerCase();
}

export function canonicalRoomId(text: string): string | undefined {
  return text === globalRoomAlias ? globalRoomId : canonicalUuid(text);
}

/** The 16 bytes of a canonical UUID. */
export function uuidBytes(uuid: string): Buffer {
  const bytes = Buffer.allocUnsafe(16);
  for (let at = 0, from = 0; at < 16; at += 1, from += 2) {
    if (uuid.charCodeAt(from) === dash) from += 1;
    bytes[at] = (hexDigit(uuid.charCodeAt(from)) << 4) | hexDigit(uuid.charCodeAt(from + 1));
  }
  return bytes;
}

const dash = 45;

/** Only for 0–9 and a–f, the digits of a canonical UUID. */
function hexDigit(code: number): number {
  return code < 58 ? code - 48 : code - 87;
}

export function uuidOfBytes(bytes: Buffer): string {
  const hex = bytes.toString('hex', 0, 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
