/** Calls the embedder within its limits, and checks every answer. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import { StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { Waits } from '../../core/waiting/waits.js';
import {
  type Embedder,
  EmbedderUnavailable,
  TextsRefused,
  checkEmbedder,
  checkedVectors,
} from './embedder.js';

/** The pause before the second request of a search; it doubles. */
const searchPauseMs = 100;

export class Embedding {
  readonly model: string;
  readonly dimensions: number;
  /** Stored with each vector. Only vectors of one model and of the same dimensions can be compared. */
  readonly space: string;
  readonly #embedder: Embedder;
  readonly #limits: Limits;
  readonly #requests = new Waits();
  /** By the searched words. The next page of a search must have exactly the same vector. */
  readonly #queries: LRUCache<string, Float32Array>;

  constructor(embedder: Embedder, limits: Limits) {
    checkEmbedder(embedder);
    this.#embedder = embedder;
    this.#limits = limits;
    ({ model: this.model, dimensions: this.dimensions } = embedder);
    this.space = `${this.model}/${this.dimensions}`;
    this.#queries = new LRUCache(entriesAtMost(Math.max(1, limits.queryVectorsCachedMax)));
  }

  /** The vector of searched words. A passing failure is tried again a few times. */
  async ofQuery(text: string, isWanted: () => boolean): Promise<Float32Array> {
    const known = this.#queries.get(text);
    if (known !== undefined) return known;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const [vector] = await this.ofTexts([text]);
        this.#queries.set(text, vector as Float32Array);
        return vector as Float32Array;
      } catch (error) {
        if (!mayPass(error) || attempt >= this.#limits.embedAttemptsMax || !isWanted()) throw error;
        await sleep(searchPauseMs * 2 ** (attempt - 1));
      }
    }
  }

  /** One request. `stop` ends it early. */
  async ofTexts(texts: readonly string[], stop?: AbortSignal): Promise<Float32Array[]> {
    const end = { signal: stop, timeMs: this.#limits.embedSecondsMax * 1_000 };
    const answer = await this.#requests.run(end, (signal) =>
      withinSignal(signal, () => this.#embedder.embed(texts, signal)),
    );
    return checkedVectors(answer, texts.length, this.dimensions);
  }
}

/** Whether the same words may work in a moment. An embedder that names a time has said that they will not. */
function mayPass(error: unknown): boolean {
  if (error instanceof TextsRefused) return false;
  return !(error instanceof EmbedderUnavailable) || error.retryAfterSeconds === null;
}

/** A function that ignores its signal must not delay the work. */
async function withinSignal<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
  const done = new AbortController();
  const aborted = new Promise<never>((_resolve, reject) => {
    const onAbort = (): void => reject(new EmbedderUnavailable('it took too long (embedSecondsMax)'));
    signal.addEventListener('abort', onAbort, { signal: done.signal });
  });
  try {
    return await Promise.race([work(), aborted]);
  } catch (error) {
    if (error instanceof StoaError) throw error;
    throw new EmbedderUnavailable(messageOf(error), { cause: error });
  } finally {
    done.abort();
  }
}
