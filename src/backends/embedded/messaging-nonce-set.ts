/** Nonces by their hashes: eight bytes each, so that those of minutes under full load fit in memory. */
import { randomInt } from 'node:crypto';

const slotsFirst = 1024;

/** 64 bits in two halves, never both zero. */
export interface NonceHash {
  readonly high: number;
  readonly low: number;
}

// Other beginnings in each process: nobody can prepare nonces that collide.
const seedHigh = randomInt(2 ** 32);
const seedLow = randomInt(2 ** 32);

/** `from` is where in the bytes the nonce begins. */
export function nonceHash(bytes: Buffer, from: number): NonceHash {
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

/** A hash table with linear probing, at most half full. A slot is two numbers; an empty one has zeros. */
export class NonceSet {
  #slots = new Uint32Array(2 * slotsFirst);
  #size = 0;

  has(hash: NonceHash): boolean {
    return !this.#isEmpty(this.#find(hash));
  }

  add(hash: NonceHash): void {
    const at = this.#find(hash);
    if (!this.#isEmpty(at)) return;
    this.#put(at, hash);
    this.#size += 1;
    if (this.#size * 4 > this.#slots.length) this.#grow();
  }

  delete(hash: NonceHash): void {
    let gap = this.#find(hash);
    if (this.#isEmpty(gap)) return;
    this.#size -= 1;
    // Whatever stands behind the gap and was meant for a place before it moves up: a search ends at the first empty slot.
    for (let at = this.#next(gap); !this.#isEmpty(at); at = this.#next(at)) {
      const moved = this.#hashAt(at);
      if (this.#distance(this.#home(moved), at) < this.#distance(gap, at)) continue;
      this.#put(gap, moved);
      gap = at;
    }
    this.#put(gap, { high: 0, low: 0 });
  }

  /** Its slot, or the empty one where it would go. */
  #find(hash: NonceHash): number {
    let at = this.#home(hash);
    while (!this.#isEmpty(at) && (this.#slots[at] !== hash.high || this.#slots[at + 1] !== hash.low)) at = this.#next(at);
    return at;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(before.length * 2);
    for (let at = 0; at < before.length; at += 2) {
      const hash = { high: before[at] as number, low: before[at + 1] as number };
      if (hash.high !== 0 || hash.low !== 0) this.#put(this.#find(hash), hash);
    }
  }

  #home({ low }: NonceHash): number {
    return (low * 2) % this.#slots.length;
  }

  #next(at: number): number {
    return (at + 2) % this.#slots.length;
  }

  #distance(from: number, to: number): number {
    return (to - from + this.#slots.length) % this.#slots.length;
  }

  #isEmpty(at: number): boolean {
    return this.#slots[at] === 0 && this.#slots[at + 1] === 0;
  }

  #hashAt(at: number): NonceHash {
    return { high: this.#slots[at] as number, low: this.#slots[at + 1] as number };
  }

  #put(at: number, { high, low }: NonceHash): void {
    this.#slots[at] = high;
    this.#slots[at + 1] = low;
  }
}
