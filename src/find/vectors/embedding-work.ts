/**
 * Embeds waiting documents in the background. A document waits from its write until its vector is stored, in
 * the home: a failure of the embedder or of the server loses nothing.
 */
import { messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { Periodic } from '../../core/waiting/periodic.js';
import { Slices } from '../../core/waiting/yielding.js';
import type { DocumentRecord } from '../../datastore/model.js';
import { documentFacts } from '../entries.js';
import { EmbedderUnavailable, TextsRefused } from './embedder.js';
import type { Embedding } from './embedding.js';
import type { EmbeddedDocument, StoredVector, VectorPort, WaitingDocument } from './port.js';
import { embeddedText, textHash } from './texts.js';

export interface EmbeddingWorkOptions {
  readonly port: VectorPort;
  /** Null: nothing is embedded, and vectors of removed documents still go. */
  readonly embedding: Embedding | null;
  readonly limits: Limits;
  readonly onError: (error: unknown, about: string) => void;
  readonly intervalMs?: number | undefined;
}

export interface EmbeddingState {
  readonly embedded: number;
  /** Documents whose text the embedder refused. */
  readonly refused: number;
  /** Why the embedder fails; null if it works. */
  readonly failing: string | null;
}

const intervalDefaultMs = 1_000;

interface Text {
  readonly waiting: WaitingDocument;
  readonly text: string;
  readonly stored: Omit<StoredVector, 'vector'>;
}

export class EmbeddingWork {
  readonly #options: EmbeddingWorkOptions;
  readonly #rounds: Periodic;
  readonly #everyMs: number;
  readonly #closing = new AbortController();
  #state: EmbeddingState = { embedded: 0, refused: 0, failing: null };
  #failures = 0;
  #pausedUntilMs = 0;
  #isAdopted = false;

  constructor(options: EmbeddingWorkOptions) {
    this.#options = options;
    const { onError, intervalMs = intervalDefaultMs } = options;
    this.#everyMs = intervalMs;
    this.#rounds = new Periodic({
      everyMs: intervalMs,
      run: () => this.#round(),
      onError: (error) => onError(error, 'embedding documents (they wait, and it is tried again)'),
    });
  }

  get state(): EmbeddingState {
    return this.#state;
  }

  start(): void {
    this.#rounds.start();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#rounds.close();
  }

  /** Owners take turns, one batch each: no owner waits for the longest list. */
  async #round(): Promise<void> {
    const { port, embedding } = this.#options;
    if (embedding !== null && !this.#isAdopted) await port.adopt(embedding.space);
    this.#isAdopted = true;
    if ((await port.takeTurn?.(!this.#isPaused, this.#everyMs)) === false) return;
    for (let isMore = true; isMore;) {
      isMore = false;
      for await (const owner of port.owners()) {
        if (this.#closing.signal.aborted) return;
        if (await this.#workOn(owner)) isMore = true;
      }
    }
  }

  /** True if the owner has more to embed now. */
  async #workOn(owner: string): Promise<boolean> {
    const { port, limits } = this.#options;
    let after: string | null = null;
    try {
      for (;;) {
        const page = await port.take(owner, after, limits.embedBatchMax);
        if (page === null || this.#closing.signal.aborted) return false;
        const done = await this.#embed(page.documents);
        if (done.length > 0) await port.settle(owner, done);
        if (page.next === null) return false;
        if (!this.#isPaused) return true;
        // While nothing can be embedded, the rest is read too: removed documents must lose their vectors.
        after = page.next;
      }
    } finally {
      await port.release(owner);
    }
  }

  get #isPaused(): boolean {
    return this.#options.embedding === null || performance.now() < this.#pausedUntilMs;
  }

  async #embed(waiting: readonly WaitingDocument[]): Promise<EmbeddedDocument[]> {
    const { embedding, limits } = this.#options;
    const slices = new Slices();
    const done: EmbeddedDocument[] = [];
    const texts: Text[] = [];
    for (const one of waiting) {
      const { record, known, fields } = one;
      if (record === null) done.push({ waiting: one, stored: null });
      else if (embedding !== null) {
        const text = embeddedText(record, fields, limits.embedTextBytesMax);
        const stored = { facts: factsOf(record), space: embedding.space, textHash: textHash(text) };
        if (known?.space === stored.space && known.textHash === stored.textHash)
          done.push({ waiting: one, stored: { ...stored, vector: 'kept' } });
        else if (text === '') done.push({ waiting: one, stored: { ...stored, vector: null } });
        else texts.push({ waiting: one, text, stored });
      }
      await slices.pause();
    }
    if (embedding === null || texts.length === 0 || this.#isPaused) return done;
    try {
      done.push(...(await this.#vectors(embedding, texts)));
      [this.#failures, this.#state] = [0, { ...this.#state, failing: null }];
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#pause(error);
    }
    return done;
  }

  /** Texts that the embedder refuses are found by halving, so that the others are embedded. */
  async #vectors(embedding: Embedding, texts: readonly Text[], isLast = false): Promise<EmbeddedDocument[]> {
    try {
      const vectors = await embedding.ofTexts(
        texts.map(({ text }) => text),
        this.#closing.signal,
      );
      this.#state = { ...this.#state, embedded: this.#state.embedded + texts.length };
      return texts.map(({ waiting, stored }, index) => ({
        waiting,
        stored: { ...stored, vector: vectors[index] ?? null },
      }));
    } catch (error) {
      if (!(error instanceof TextsRefused)) throw error;
      if (texts.length > 1) {
        const half = texts.length >> 1;
        return [
          ...(await this.#vectors(embedding, texts.slice(0, half))),
          ...(await this.#vectors(embedding, texts.slice(half))),
        ];
      }
      if (!isLast) {
        // If the embedder refuses every text, its settings are wrong, and the document must keep waiting.
        await embedding.ofTexts(['text'], this.#closing.signal);
        return this.#vectors(embedding, texts, true);
      }
      const [{ waiting, stored }] = texts as [Text];
      const place = `"${waiting.key}" of the namespace "${waiting.namespace}"`;
      this.#options.onError(error, `embedding the document ${place}; mode=vector does not find it`);
      this.#state = { ...this.#state, refused: this.#state.refused + 1 };
      return [{ waiting, stored: { ...stored, vector: null } }];
    }
  }

  #pause(error: unknown): void {
    const { embedPauseSecondsMax } = this.#options.limits;
    // Servers that failed together must not try again together.
    const seconds = 2 ** this.#failures * (0.5 + Math.random() / 2);
    const asked = error instanceof EmbedderUnavailable ? (error.retryAfterSeconds ?? 0) : 0;
    const pauseSeconds = Math.min(Math.max(seconds, asked), embedPauseSecondsMax);
    this.#pausedUntilMs = performance.now() + pauseSeconds * 1_000;
    if (this.#failures === 0)
      this.#options.onError(error, 'embedding documents (they wait, and it is tried again)');
    this.#failures += 1;
    this.#state = { ...this.#state, failing: messageOf(error) };
  }
}

function factsOf(record: DocumentRecord): StoredVector['facts'] {
  const { name: _name, ...facts } = documentFacts(record);
  return facts;
}
