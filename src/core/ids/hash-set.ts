/** A set of 64-bit hashes that uses eight bytes for each. */

const slotsFirst = 1_024;

/** 64 bits in two halves, never both zero. */
export interface Hash {
  readonly high: number;
  readonly low: number;
}

/** A hash table with linear probing, at most half full. A slot is two numbers; an empty one has zeros. */
export class HashSet {
  #slots = new Uint32Array(2 * slotsFirst);
  #size = 0;

  has(hash: Hash): boolean {
    return !this.#isEmpty(this.#find(hash));
  }

  add(hash: Hash): void {
    const at = this.#find(hash);
    if (!this.#isEmpty(at)) return;
    this.#put(at, hash);
    this.#size += 1;
    if (this.#size * 4 > this.#slots.length) this.#grow();
  }

  delete(hash: Hash): void {
    let gap = this.#find(hash);
    if (this.#isEmpty(gap)) return;
    this.#size -= 1;
    // Entries after the gap that belong before it move up, because a search ends at the first empty slot.
    for (let at = this.#next(gap); !this.#isEmpty(at); at = this.#next(at)) {
      const moved = this.#hashAt(at);
      if (this.#distance(this.#home(moved), at) < this.#distance(gap, at)) continue;
      this.#put(gap, moved);
      gap = at;
    }
    this.#put(gap, { high: 0, low: 0 });
  }

  /** The slot of the hash, or the empty slot where it would be added. */
  #find(hash: Hash): number {
    let at = this.#home(hash);
    while (!this.#isEmpty(at) && (this.#slots[at] !== hash.high || this.#slots[at + 1] !== hash.low))
      at = this.#next(at);
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

  #home({ low }: Hash): number {
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

  #hashAt(at: number): Hash {
    return { high: this.#slots[at] as number, low: this.#slots[at + 1] as number };
  }

  #put(at: number, { high, low }: Hash): void {
    this.#slots[at] = high;
    this.#slots[at + 1] = low;
  }
}
