/** The ids that a file defines, in eight bytes each: a file may hold millions, and texts would take ten times as much. */
import { createHash, randomBytes } from 'node:crypto';

const slotsFirst = 1_024;

/**
 * A set of hashes with a secret of its own, so that nobody can make two ids that meet. Of ten million
 * ids two meet by chance once in 400,000 files; then the second is taken for a repetition of the first.
 */
export class KnownIds {
  readonly #salt = randomBytes(16);
  /** Open addressing; 0 is an empty slot. At most half of it is in use. */
  #slots = new BigUint64Array(slotsFirst);
  #count = 0;

  has(type: string, id: string): boolean {
    const hash = this.#hashOf(type, id);
    return this.#slots[this.#slotOf(this.#slots, hash)] === hash;
  }

  /** False when it was there already. */
  add(type: string, id: string): boolean {
    const hash = this.#hashOf(type, id);
    const slot = this.#slotOf(this.#slots, hash);
    if (this.#slots[slot] === hash) return false;
    this.#slots[slot] = hash;
    this.#count += 1;
    if (this.#count * 2 > this.#slots.length) this.#grow();
    return true;
  }

  #grow(): void {
    const larger = new BigUint64Array(this.#slots.length * 2);
    for (const hash of this.#slots) if (hash !== 0n) larger[this.#slotOf(larger, hash)] = hash;
    this.#slots = larger;
  }

  /** Where the hash is, or where it would go. The number of slots is a power of two. */
  #slotOf(slots: BigUint64Array, hash: bigint): number {
    let slot = Number(hash & BigInt(slots.length - 1));
    while (slots[slot] !== 0n && slots[slot] !== hash) slot = (slot + 1) & (slots.length - 1);
    return slot;
  }

  #hashOf(type: string, id: string): bigint {
    const hash = createHash('sha256').update(this.#salt).update(`${type} ${id}`).digest().readBigUInt64LE();
    return hash === 0n ? 1n : hash;
  }
}
