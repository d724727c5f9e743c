/**
 * Numbers for terms, in the order in which they come: a hash table over bytes in one arena. A note of a kilobyte has
 * a hundred terms, and a string and an entry of a `Map` for each would cost more than finding them.
 */
import { randomInt } from 'node:crypto';
import { foldedCode } from './characters.js';

const slotsMin = 2_048;

export class TermTable {
  count = 0;
  /** The UTF-8 bytes of all terms. Those of term n are from `starts[n]` to `starts[n + 1]`. */
  bytes = Buffer.allocUnsafe(8 * 1024);
  starts = new Int32Array(1_024);
  #hashes = new Int32Array(1_024);
  /** The number of the term in a slot and 1; 0: empty. */
  #slots = new Int32Array(slotsMin);
  #scratch = Buffer.allocUnsafe(1_024);

  clear(): void {
    // After a large text, all others would clear its slots too.
    if (this.#slots.length > slotsMin) this.#slots = new Int32Array(slotsMin);
    else this.#slots.fill(0);
    this.count = 0;
  }

  /** The number of the term with these bytes. */
  numberOf(bytes: Uint8Array, from: number, to: number): number {
    let hash = seed;
    for (let at = from; at < to; at += 1) hash = mixed(hash, bytes[at] as number);
    for (let slot = this.#firstSlot(hash); ; slot = this.#nextSlot(slot)) {
      const found = (this.#slots[slot] as number) - 1;
      if (found < 0) return this.#add(slot, hash, bytes, from, to);
      if (this.#hashes[found] === hash && this.#isEqual(found, bytes, from, to)) return found;
    }
  }

  numberOfWord(word: string): number {
    const size = this.#write(word);
    return this.numberOf(this.#scratch, 0, size);
  }

  /** Whether the table has the term. */
  has(word: string): boolean {
    const size = this.#write(word);
    const bytes = this.#scratch;
    let hash = seed;
    for (let at = 0; at < size; at += 1) hash = mixed(hash, bytes[at] as number);
    for (let slot = this.#firstSlot(hash); ; slot = this.#nextSlot(slot)) {
      const found = (this.#slots[slot] as number) - 1;
      if (found < 0) return false;
      if (this.#hashes[found] === hash && this.#isEqual(found, bytes, 0, size)) return true;
    }
  }

  /** The number of a run of letters that fold each for itself, or of digits; -1 if a folded form has several units. */
  numberOfRun(text: string, start: number, end: number): number {
    const bytes = this.#scratch;
    let hash = seed;
    let size = 0;
    for (let at = start; at < end; at += 1) {
      const unit = foldedCode(text.charCodeAt(at));
      if (unit === 0) return -1;
      if (unit > 0x7f) {
        const isShort = unit < 0x800;
        const first = isShort ? 0xc0 | (unit >> 6) : 0xe0 | (unit >> 12);
        bytes[size] = first;
        hash = mixed(hash, first);
        if (!isShort) {
          const second = 0x80 | ((unit >> 6) & 0x3f);
          bytes[size + 1] = second;
          hash = mixed(hash, second);
        }
        size += isShort ? 1 : 2;
      }
      const last = unit > 0x7f ? 0x80 | (unit & 0x3f) : unit;
      bytes[size] = last;
      hash = mixed(hash, last);
      size += 1;
    }
    for (let slot = this.#firstSlot(hash); ; slot = this.#nextSlot(slot)) {
      const found = (this.#slots[slot] as number) - 1;
      if (found < 0) return this.#add(slot, hash, bytes, 0, size);
      if (this.#hashes[found] === hash && this.#isEqual(found, bytes, 0, size)) return found;
    }
  }

  /** Negative, 0 or positive as one term comes before, is, or comes after another one, by their bytes. */
  compare(a: number, b: number): number {
    const { bytes, starts } = this;
    const [x, y] = [starts[a] as number, starts[b] as number];
    const [sizeA, sizeB] = [(starts[a + 1] as number) - x, (starts[b + 1] as number) - y];
    const shorter = sizeA < sizeB ? sizeA : sizeB;
    for (let at = 0; at < shorter; at += 1) {
      const difference = (bytes[x + at] as number) - (bytes[y + at] as number);
      if (difference !== 0) return difference;
    }
    return sizeA - sizeB;
  }

  #firstSlot(hash: number): number {
    return hash & (this.#slots.length - 1);
  }

  #nextSlot(slot: number): number {
    return (slot + 1) & (this.#slots.length - 1);
  }

  #isEqual(term: number, bytes: Uint8Array, from: number, to: number): boolean {
    const start = this.starts[term] as number;
    if ((this.starts[term + 1] as number) - start !== to - from) return false;
    for (let at = from; at < to; at += 1) if (this.bytes[start + at - from] !== bytes[at]) return false;
    return true;
  }

  #add(slot: number, hash: number, bytes: Uint8Array, from: number, to: number): number {
    const number = this.count;
    if (number + 1 === this.starts.length) this.#growTerms();
    const start = number === 0 ? 0 : (this.starts[number] as number);
    const end = start + to - from;
    if (end > this.bytes.length) this.#growBytes(end);
    for (let at = from; at < to; at += 1) this.bytes[start + at - from] = bytes[at] as number;
    this.starts[number] = start;
    this.starts[number + 1] = end;
    this.#hashes[number] = hash;
    this.#slots[slot] = number + 1;
    this.count = number + 1;
    if (this.count * 2 > this.#slots.length) this.#growSlots();
    return number;
  }

  /** Returns the size of the word, whose bytes are in the scratch memory then. */
  #write(word: string): number {
    if (word.length * 3 > this.#scratch.length) this.#scratch = Buffer.allocUnsafe(word.length * 3);
    const bytes = this.#scratch;
    for (let at = 0; at < word.length; at += 1) {
      const unit = word.charCodeAt(at);
      if (unit > 0x7f) return bytes.write(word);
      bytes[at] = unit;
    }
    return word.length;
  }

  #growTerms(): void {
    const [starts, hashes] = [new Int32Array(this.starts.length * 2), new Int32Array(this.starts.length * 2)];
    starts.set(this.starts);
    hashes.set(this.#hashes);
    [this.starts, this.#hashes] = [starts, hashes];
  }

  #growBytes(needed: number): void {
    const bytes = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, needed));
    bytes.set(this.bytes);
    this.bytes = bytes;
  }

  #growSlots(): void {
    this.#slots = new Int32Array(this.#slots.length * 4);
    for (let term = 0; term < this.count; term += 1) {
      let slot = this.#firstSlot(this.#hashes[term] as number);
      while (this.#slots[slot] !== 0) slot = this.#nextSlot(slot);
      this.#slots[slot] = term + 1;
    }
  }
}

/** Differs from process to process: no one can choose words that share their slots. */
const seed = randomInt(2 ** 31);

function mixed(hash: number, byte: number): number {
  const next = Math.imul(hash ^ byte, 0x9e3779b1);
  return next ^ (next >>> 15);
}
