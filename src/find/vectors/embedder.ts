/** An embedder turns texts into vectors: texts of similar meaning get similar vectors. */
import { StoaError } from '../../core/errors.js';

/** What `openStoa` takes as `embedder`, and what an endpoint over HTTP is. */
export interface Embedder {
  /** Vectors of two models cannot be compared. */
  readonly model: string;
  /** The numbers in each vector. */
  readonly dimensions: number;
  /** One vector for each text, in the same order. It should end when the signal is aborted. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly ArrayLike<number>[]>;
}

const dimensionsMax = 4_096;
const modelBytesMax = 256;

/** Refuses an embedder that cannot work, before anything is stored under its name. */
export function checkEmbedder({ model, dimensions }: Pick<Embedder, 'model' | 'dimensions'>): void {
  if (typeof model !== 'string' || model === '' || Buffer.byteLength(model) > modelBytesMax)
    throw new StoaError(
      'invalid_config',
      `The model of the embedder must be a name of 1 to ${modelBytesMax} bytes.`,
    );
  if (!Number.isSafeInteger(dimensions) || dimensions < 1 || dimensions > dimensionsMax)
    throw new StoaError(
      'invalid_config',
      `The dimensions of the embedder must be a whole number from 1 to ${dimensionsMax}, got ${String(dimensions)}.`,
      { fix: 'Set it to the length of the vectors of the model.' },
    );
}

/** The embedder does not answer now. The same request may work later. */
export class EmbedderUnavailable extends StoaError {
  /** When the embedder wants the next request; null if it has not said. */
  readonly retryAfterSeconds: number | null;

  constructor(reason: string, { cause, retryAfterSeconds = null }: EmbedderFailure = {}) {
    super('backend_unavailable', `The embedder does not answer: ${reason}.`, {
      fix: 'Try again later, or search with mode=text.',
      ...(cause !== undefined && { cause }),
    });
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export interface EmbedderFailure {
  readonly cause?: unknown;
  readonly retryAfterSeconds?: number | null;
}

/** The embedder refused these texts. Others may work. */
export class TextsRefused extends StoaError {
  constructor(reason: string) {
    super('backend_unavailable', `The embedder refused a text: ${reason}.`, {
      fix: 'Send other words, or search with mode=text.',
    });
  }
}

/** The answer is not what was asked for: the settings of the embedder may be wrong. */
export class AnswerUnusable extends StoaError {
  constructor(reason: string) {
    super('backend_unavailable', `The answer of the embedder is not usable: ${reason}.`, {
      fix: 'Check embedder_url, embedder_model and embedder_dimensions, or search with mode=text.',
    });
  }
}

/**
 * The vectors of an answer, with length 1, so that a product of two is their cosine. Throws if one is not a
 * vector of the embedder's dimensions.
 */
export function checkedVectors(answer: unknown, texts: number, dimensions: number): Float32Array[] {
  if (!Array.isArray(answer)) throw new AnswerUnusable('it is not a list of vectors');
  if (answer.length !== texts) throw new AnswerUnusable(`it has ${answer.length} vectors for ${texts} texts`);
  return answer.map((vector: unknown) => unitVector(vector, dimensions));
}

function unitVector(given: unknown, dimensions: number): Float32Array {
  if (!Array.isArray(given) && !(given instanceof Float32Array) && !(given instanceof Float64Array))
    throw new AnswerUnusable('a vector is not a list of numbers');
  if (given.length !== dimensions)
    throw new AnswerUnusable(`a vector has ${given.length} dimensions, expected ${dimensions}`);
  let squares = 0;
  for (let at = 0; at < dimensions; at += 1) {
    const value: unknown = given[at];
    if (typeof value !== 'number' || !Number.isFinite(value))
      throw new AnswerUnusable('a vector has a member that is not a finite number');
    squares += value * value;
  }
  const length = Math.sqrt(squares);
  if (length === 0 || !Number.isFinite(length))
    throw new AnswerUnusable('a vector has no direction: its numbers are all 0, or too large');
  const unit = new Float32Array(dimensions);
  for (let at = 0; at < dimensions; at += 1) unit[at] = (given[at] as number) / length;
  return unit;
}
