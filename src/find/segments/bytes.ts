/** Numbers and texts as bytes, for the rows of the search index. */

/** Times before 1970 are numbers above this. All times of four-digit years are far below it. */
const beforeFrom = 2 ** 52;

/** A number below 2^53 in groups of seven bits, the lowest first; the last byte has its high bit clear. */
export class ByteWriter {
  #bytes = Buffer.allocUnsafe(256);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  number(value: number): void {
    if ((value & 0x7f) === value) {
      if (this.#length === this.#bytes.length) this.#grow(1);
      this.#bytes[this.#length] = value;
      this.#length += 1;
      return;
    }
    // Such a number would shift everything that is read after it.
    if (!Number.isSafeInteger(value) || value < 0)
      throw new RangeError(
        `Expected a whole number from 0 to 2^53 - 1 for a row of the index, got ${value}.`,
      );
    this.#grow(8);
    let left = value;
    while (left >= 0x80) {
      this.#bytes[this.#length] = (left % 0x80) | 0x80;
      this.#length += 1;
      left = Math.floor(left / 0x80);
    }
    this.#bytes[this.#length] = left;
    this.#length += 1;
  }

  /** Milliseconds since 1970, or before it. */
  time(ms: number): void {
    this.number(ms < 0 ? beforeFrom - ms : ms);
  }

  /** The bytes of the text after their number. */
  text(value: string): void {
    this.number(utf8Size(value));
    this.utf8(value);
  }

  /** The bytes of the text alone. */
  utf8(value: string): void {
    this.#grow(3 * value.length);
    if (!isShortAscii(value)) {
      this.#length += this.#bytes.write(value, this.#length);
      return;
    }
    for (let at = 0; at < value.length; at += 1) this.#bytes[this.#length + at] = value.charCodeAt(at);
    this.#length += value.length;
  }

  bytes(value: Uint8Array, from = 0, to = value.length): void {
    this.#grow(to - from);
    // Most values have a few bytes, and a view on them would cost more than copying them.
    if (to - from < 24)
      for (let at = from; at < to; at += 1) this.#bytes[this.#length + at - from] = value[at] as number;
    else this.#bytes.set(value.subarray(from, to), this.#length);
    this.#length += to - from;
  }

  /** Adds everything that the other writer has. The other writer is empty afterwards. */
  move(other: ByteWriter): void {
    this.bytes(other.#bytes, 0, other.#length);
    other.#length = 0;
  }

  /** What was written so far, as a copy. The writer is empty afterwards and can be used again. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#length));
    this.#length = 0;
    return taken;
  }

  #grow(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + more));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

/** Reads what a `ByteWriter` wrote. Damaged bytes end in a `RangeError`, never in an endless loop. */
export class ByteReader {
  readonly bytes: Buffer;
  at: number;
  readonly end: number;

  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  get isAtEnd(): boolean {
    return this.at >= this.end;
  }

  byte(): number {
    const value = this.bytes[this.at];
    if (value === undefined || this.at >= this.end) throw new RangeError('The row of the index is cut off.');
    this.at += 1;
    return value;
  }

  number(): number {
    let byte = this.byte();
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let scale = 0x80;
    do {
      byte = this.byte();
      value += (byte & 0x7f) * scale;
      scale *= 0x80;
    } while (byte >= 0x80);
    return value;
  }

  time(): number {
    const value = this.number();
    return value > beforeFrom ? beforeFrom - value : value;
  }

  text(): string {
    const size = this.number();
    const from = this.at;
    this.skip(size);
    return this.bytes.toString('utf8', from, this.at);
  }

  /** Skips so many numbers. */
  skipNumbers(count: number): void {
    const { bytes, end } = this;
    let at = this.at;
    for (let left = count; left > 0; at += 1) {
      if (at >= end) throw new RangeError('The row of the index is cut off.');
      if ((bytes[at] as number) < 0x80) left -= 1;
    }
    this.at = at;
  }

  skip(size: number): void {
    if (this.at + size > this.end) throw new RangeError('The row of the index is cut off.');
    this.at += size;
  }
}

/** The bytes of a text in UTF-8. */
export function utf8Size(text: string): number {
  return isShortAscii(text) ? text.length : Buffer.byteLength(text);
}

/** Most words are. Counting and writing their characters here costs less than a call out of JavaScript. */
function isShortAscii(text: string): boolean {
  if (text.length > 32) return false;
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) > 0x7f) return false;
  return true;
}

/** How many first bytes two values have in common. */
export function sharedBytes(a: Buffer, b: Buffer): number {
  const most = Math.min(a.length, b.length);
  let shared = 0;
  while (shared < most && a[shared] === b[shared]) shared += 1;
  return shared;
}
