/** The hash of a nonce in memory. The hashes of several minutes under full load fit into memory. */
import { randomInt } from 'node:crypto';
import type { Hash } from '../../../../core/ids/hash-set.js';

// Random seeds for each process: a caller cannot prepare nonces whose hashes collide.
const seedHigh = randomInt(2 ** 32);
const seedLow = randomInt(2 ** 32);

/** `from` is where in the bytes the nonce begins. */
export function nonceHash(bytes: Buffer, from: number): Hash {
  let high = seedHigh;
  let low = seedLow;
  for (let at = from; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    high = Math.imul(high ^ byte, 0x01000193);
    low = Math.imul(low ^ byte ^ (high >>> 24), 0x85ebca6b);
  }
  high = mixed(high ^ (low >>> 16));
  low = mixed(low ^ high);
  return { high, low: high === 0 && low === 0 ? 1 : low };
}

/** Spreads every bit over all others. */
function mixed(half: number): number {
  let bits = half ^ (half >>> 16);
  bits = Math.imul(bits, 0x85ebca6b);
  bits ^= bits >>> 13;
  bits = Math.imul(bits, 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
