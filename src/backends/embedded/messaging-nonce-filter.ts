/** A Bloom filter: says of a nonce that it is certainly new, or that it may be known. */

/** Half a megabyte; with 300,000 nonces in it, one new nonce in forty is taken for one that may be known. */
const bits = 2 ** 22;
const hashes = 4;

export class NonceFilter {
  readonly #words = new Int32Array(bits / 32);

  /** `from` is where in the bytes the nonce begins. */
  add(bytes: Buffer, from: number): void {
    const { first, step } = hashesOf(bytes, from);
    for (let index = 0; index < hashes; index += 1) {
      const bit = placeOf(first, step, index);
      this.#words[bit >>> 5] = (this.#words[bit >>> 5] as number) | (1 << (bit & 31));
    }
  }

  mayHave(bytes: Buffer, from: number): boolean {
    const { first, step } = hashesOf(bytes, from);
    for (let index = 0; index < hashes; index += 1) {
      const bit = placeOf(first, step, index);
      if (((this.#words[bit >>> 5] as number) & (1 << (bit & 31))) === 0) return false;
    }
    return true;
  }
}

/** FNV-1a with two beginnings: one place, and the way from each place to the next. */
function hashesOf(bytes: Buffer, from: number): { first: number; step: number } {
  let first = 0x811c9dc5;
  let step = 0x01000193;
  for (let at = from; at < bytes.length; at += 1) {
    first = Math.imul(first ^ (bytes[at] as number), 0x01000193);
    step = Math.imul(step ^ (bytes[at] as number), 0x85ebca6b);
  }
  // An odd step reaches every place.
  return { first: first ^ (first >>> 15), step: (step ^ (step >>> 13)) | 1 };
}

function placeOf(first: number, step: number, index: number): number {
  return (first + Math.imul(step, index)) >>> 0 & (bits - 1);
}
