/** Collects the text of one thing, up to the number of bytes that is indexed. */
import type { EntryText } from '../model.js';

/** Bytes of text that are indexed of one document, task or message. */
export const indexedTextBytesMax = 64 * 1024;

export class LimitedText implements EntryText {
  readonly title: string[] = [];
  readonly body: string[] = [];
  #bytesLeft = indexedTextBytesMax;

  get isFull(): boolean {
    return this.#bytesLeft <= 0;
  }

  addTitle(text: string): void {
    this.#add(this.title, text);
  }

  addBody(text: string): void {
    this.#add(this.body, text);
  }

  #add(pieces: string[], text: string): void {
    if (this.#bytesLeft <= 0 || text === '') return;
    // A UTF-16 unit is at most three bytes, so a short text needs no count.
    const bytes = text.length * 3 <= this.#bytesLeft ? text.length : Buffer.byteLength(text);
    if (bytes <= this.#bytesLeft) {
      pieces.push(text);
      this.#bytesLeft -= text.length === bytes ? Buffer.byteLength(text) : bytes;
      return;
    }
    // A cut word would be a different word, so the text ends at the last space.
    const cut = Buffer.from(text).subarray(0, this.#bytesLeft).toString();
    const end = cut.search(/\s\S*$/);
    if (end > 0) pieces.push(cut.slice(0, end));
    this.#bytesLeft = 0;
  }
}
