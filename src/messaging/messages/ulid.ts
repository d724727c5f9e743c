/** ULIDs: 48 bits of time and 80 random bits, as 26 characters that sort by time. */
import { randomFillSync } from 'node:crypto';

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
/** By the codes of the characters. */
const values = new Uint8Array(128);
for (const [value, character] of [...alphabet].entries()) values[character.charCodeAt(0)] = value;
const shape = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Random bytes are generated for many ids at once, because a call for each id costs more than the id. */
const pool = Buffer.alloc(8_000);
let used = pool.length;

function tenRandomBytes(): Buffer {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += 10;
  return pool.subarray(used - 10, used);
}

/** The sixteen random characters of an id, for stores that add the time themselves. */
export function ulidRandomPart(): string {
  return newUlid(0).slice(10);
}

/** A new id whose time is `atMs`. */
export function newUlid(atMs: number): string {
  return newUlidBytes(atMs).id;
}

/** A new id with its 16 bytes. */
export function newUlidBytes(atMs: number): { id: string; bytes: Buffer } {
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeUIntBE(atMs, 0, 6);
  tenRandomBytes().copy(bytes, 6);
  return { id: ulidOfBytes(bytes), bytes };
}

export function ulidOfBytes(bytes: Buffer): string {
  let text = '';
  // 128 bits in groups of five from the right; the first character holds the three that are left.
  let carry = 0;
  let carryBits = 2;
  for (const byte of bytes) {
    carry = (carry << 8) | byte;
    carryBits += 8;
    while (carryBits >= 5) {
      carryBits -= 5;
      text += alphabet[(carry >> carryBits) & 31];
    }
    carry &= (1 << carryBits) - 1;
  }
  return text;
}

/** The 16 bytes of an id in its canonical spelling, or undefined for anything else. */
export function ulidBytes(text: string): Buffer | undefined {
  if (!shape.test(text)) return undefined;
  const bytes = Buffer.allocUnsafe(16);
  let carry = 0;
  let carryBits = -2;
  let at = 0;
  for (let from = 0; from < text.length; from += 1) {
    carry = (carry << 5) | (values[text.charCodeAt(from)] as number);
    carryBits += 5;
    if (carryBits >= 8) {
      carryBits -= 8;
      bytes[at] = (carry >> carryBits) & 255;
      at += 1;
    }
    carry &= (1 << Math.max(carryBits, 0)) - 1;
  }
  return bytes;
}

/** The latest time that an id can contain. */
export const latestTimeMs = 2 ** 48 - 1;

/** The time in an id, or undefined for text that is not an id. */
export function ulidTimeMs(text: string): number | undefined {
  return ulidBytes(text)?.readUIntBE(0, 6);
}
