/** Blocks: the terms of a segment with their lists of postings, in the order of the terms. */
import { ByteReader, ByteWriter } from './bytes.js';

/** A row of the index: consecutive terms with their lists, or a part of the list of one common term. */
export interface Block {
  /** The first term of the block. */
  readonly first: string;
  /** For a part of a list: the place of its first entry. Otherwise 0. */
  readonly from: number;
  readonly body: Buffer;
}

/** A block ends after the term with which it reaches this size: it then fits into a row inside a page. */
const blockBytes = 1_600;
/** A longer list is split, so that no row of the index is large. */
export const listBytesMax = 8_000;

export class BlockWriter {
  readonly #writer = new ByteWriter();
  readonly #blocks: Block[] = [];
  #first: string | undefined;

  /** Terms are given in their order, the parts of one list one after the other. */
  add(term: string, parts: readonly { from: number; bytes: Uint8Array }[]): void {
    const isLarge = parts.length > 1 || (parts[0]?.bytes.length ?? 0) >= blockBytes;
    // A large list does not share its block, so that a rare term beside it is read cheaply.
    if (isLarge) this.#endBlock(0);
    for (const { from, bytes } of parts) {
      this.#first ??= term;
      this.#writer.text(term);
      this.#writer.number(bytes.length);
      this.#writer.bytes(bytes);
      if (isLarge || this.#writer.length >= blockBytes) this.#endBlock(parts.length > 1 ? from : 0);
    }
  }

  /** The blocks that are complete, and that were not taken before. */
  takeComplete(): Block[] {
    return this.#blocks.splice(0);
  }

  /** All remaining blocks. */
  end(): Block[] {
    this.#endBlock(0);
    return this.takeComplete();
  }

  #endBlock(from: number): void {
    if (this.#first !== undefined) this.#blocks.push({ first: this.#first, from, body: this.#writer.take() });
    this.#first = undefined;
  }
}

/** A term of a block, and where its list is in the body. */
export interface BlockTerm {
  readonly term: string;
  readonly from: number;
  readonly to: number;
}

export function* blockTerms(body: Buffer): Generator<BlockTerm> {
  const reader = new ByteReader(body);
  while (!reader.isAtEnd) {
    const term = reader.text();
    const size = reader.number();
    const from = reader.at;
    reader.skip(size);
    yield { term, from, to: reader.at };
  }
}

/** The list of a term; undefined if the block does not have the term. */
export function listIn(body: Buffer, term: Buffer): ByteReader | undefined {
  const reader = new ByteReader(body);
  while (!reader.isAtEnd) {
    const size = reader.number();
    const at = reader.at;
    reader.skip(size);
    const listSize = reader.number();
    const from = reader.at;
    reader.skip(listSize);
    const order = body.compare(term, 0, term.length, at, at + size);
    if (order === 0) return new ByteReader(body, from, reader.at);
    if (order > 0) return undefined;
  }
  return undefined;
}
