/** Reads a CBOR map that has one valid encoding: every other field, order, type or length is a mismatch. */
import { isUtf8 } from 'node:buffer';

/** The major types of CBOR in the first byte of an item. */
const majors = { number: 0, text: 0x60, map: 0xa0 } as const;
const nullByte = 0xf6;
/** What a byte of the head says beside the major type: a number below it, or how many bytes follow with the number. */
const [oneByte, twoBytes, fourBytes, eightBytes] = [24, 25, 26, 27];
const u32Count = 2 ** 32;

/** Thrown at the first byte that is not as the layout requires. */
export class Mismatch extends Error {
  /** The field that was read, or null before the first one. */
  constructor(readonly field: string | null) {
    super('The bytes differ from the layout.');
  }
}

/**
 * Decoding with a library, checking each field and encoding the record again to compare took 3.9 µs an agent,
 * this takes 1.3.
 */
export class ExactReader {
  readonly #bytes: Buffer;
  #at = 0;
  #field: string | null = null;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The head of a map with so many fields. */
  map(fields: number): void {
    if (this.#head(majors.map) !== fields) throw this.mismatch();
  }

  /** The name of the next field. */
  field(name: string): this {
    this.#field = name;
    const size = this.#head(majors.text);
    if (size !== name.length) throw this.mismatch();
    for (let index = 0; index < size; index += 1)
      if (this.#bytes[this.#at + index] !== name.charCodeAt(index)) throw this.mismatch();
    this.#at += size;
    return this;
  }

  text(form?: RegExp): string {
    const size = this.#head(majors.text);
    const end = this.#at + size;
    if (end > this.#bytes.length) throw this.mismatch();
    const text = this.#bytes.toString('utf8', this.#at, end);
    // Invalid bytes are read as this character, which is also a valid one.
    if (text.includes('\ufffd') && !isUtf8(this.#bytes.subarray(this.#at, end))) throw this.mismatch();
    if (form !== undefined && !form.test(text)) throw this.mismatch();
    this.#at = end;
    return text;
  }

  /** At most `max`, which is at most the largest safe integer. */
  number(max = Number.MAX_SAFE_INTEGER): number {
    const value = this.#head(majors.number);
    if (value > max) throw this.mismatch();
    return value;
  }

  numberOrNull(): number | null {
    if (this.#bytes[this.#at] !== nullByte) return this.number();
    this.#at += 1;
    return null;
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw this.mismatch();
  }

  mismatch(): Mismatch {
    return new Mismatch(this.#field);
  }

  /** The number in the head of an item, in its shortest form. */
  #head(major: number): number {
    const bytes = this.#bytes;
    const first = (bytes[this.#at] ?? -1) - major;
    this.#at += 1;
    if (first >= 0 && first < oneByte) return first;
    const size = first === oneByte ? 1 : first === twoBytes ? 2 : first === fourBytes ? 4 : 8;
    if (first < oneByte || first > eightBytes || this.#at + size > bytes.length) throw this.mismatch();
    const at = this.#at;
    this.#at += size;
    const value =
      size === 8
        ? bytes.readUInt32BE(at) * u32Count + bytes.readUInt32BE(at + 4)
        : bytes.readUIntBE(at, size);
    const shorter = size === 1 ? oneByte : size === 8 ? u32Count : 2 ** (4 * size);
    if (value < shorter) throw this.mismatch();
    return value;
  }
}
