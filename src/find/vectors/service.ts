/** Gives documents vectors in the background, and reports how far it is. */
import { Paced } from '../../core/waiting/paced.js';
import type { Limits } from '../../core/settings/limits.js';
import type { Embedding } from './embedding.js';
import { EmbeddingWork } from './embedding-work.js';
import type { Backlog, VectorPort } from './port.js';

export interface VectorsServiceOptions {
  readonly port: VectorPort;
  readonly embedding: Embedding | null;
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly onError: (error: unknown, about: string) => void;
  readonly intervalMs: number | undefined;
}

export interface VectorsStatus {
  /** Null: the server has no embedder. */
  readonly model: string | null;
  readonly dimensions: number | null;
  /** How vectors are searched, in one sentence. */
  readonly search: string;
  /** Documents that wait for a vector. */
  readonly waiting: number;
  readonly oldest_waiting_seconds: number;
  /** Why the embedder fails; null if it works. */
  readonly failing: string | null;
}

/** Counts since the start of this server, and the backlog of all. */
export interface VectorsMeasures {
  readonly embedded: number;
  readonly refused: number;
  readonly waiting: number;
  readonly oldestWaitingSeconds: number;
  readonly isFailing: boolean;
}

export class VectorsService {
  readonly #options: VectorsServiceOptions;
  readonly #work: EmbeddingWork;
  readonly #backlog: Paced<Backlog>;

  constructor(options: VectorsServiceOptions) {
    this.#options = options;
    this.#work = new EmbeddingWork(options);
    this.#backlog = new Paced(() => options.port.backlog());
  }

  /** What makes the vectors; null if this server has no embedder. */
  get embedder(): { model: string; dimensions: number } | null {
    const { embedding } = this.#options;
    return embedding && { model: embedding.model, dimensions: embedding.dimensions };
  }

  /** How vectors are searched, in one sentence for the log. */
  method(): Promise<string> {
    return this.#options.port.method();
  }

  start(): void {
    this.#work.start();
  }

  close(): Promise<void> {
    return this.#work.close();
  }

  async status(): Promise<VectorsStatus> {
    const { port, embedding } = this.#options;
    const backlog = await port.backlog();
    return {
      model: embedding?.model ?? null,
      dimensions: embedding?.dimensions ?? null,
      search: await port.method(),
      waiting: backlog.documents,
      oldest_waiting_seconds: this.#secondsSince(backlog.oldestMs),
      failing: this.#work.state.failing,
    };
  }

  /** For `/metrics`, which may be read often: the backlog is counted now and then. */
  async measure(): Promise<VectorsMeasures> {
    const { documents, oldestMs } = await this.#backlog.read();
    const { embedded, refused, failing } = this.#work.state;
    return {
      embedded,
      refused,
      waiting: documents,
      oldestWaitingSeconds: this.#secondsSince(oldestMs),
      isFailing: failing !== null,
    };
  }

  #secondsSince(timeMs: number | null): number {
    return timeMs === null ? 0 : Math.max(0, (this.#options.nowMs() - timeMs) / 1_000);
  }
}
