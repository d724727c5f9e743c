/** Collects the text of one thing without its secrets, up to the number of bytes that is indexed. */
import type { EntryText } from '../model.js';
import { withoutSecrets } from './secrets-in-text.js';

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
    // A UTF-16 unit is at least one byte, so no more of a long text is looked at.
    const isLong = text.length > this.#bytesLeft;
    const shown = withoutSecrets(isLong ? text.slice(0, this.#bytesLeft + 1) : text);
    const bytes = Buffer.byteLength(shown);
    if (!isLong && bytes <= this.#bytesLeft) {
      pieces.push(shown);
      this.#bytesLeft -= bytes;
      return;
    }
    // A cut word would be a different word, so the text ends at the last space.
    const cut = Buffer.from(shown).subarray(0, this.#bytesLeft).toString();
    const end = cut.search(/\s\S*$/);
    if (end > 0) pieces.push(cut.slice(0, end));
    this.#bytesLeft = 0;
  }
}
