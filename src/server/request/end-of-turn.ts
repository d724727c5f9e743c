/** Work that waits until all requests of the same turn of the event loop have been read. */

/** Bytes of bodies that are worked on in one turn. One that is larger has a turn of its own. */
const bytesPerTurn = 256 * 1024;

/** Requests that continue in the same turn. */
interface Part {
  bytes: number;
  readonly end: Promise<void>;
  readonly release: () => void;
}

/**
 * Reading requests and running transactions are two large pieces of code. Alternating between them for
 * every request misses the processor's caches. Reading all requests first and then running all
 * transactions makes a durable write about a fifth cheaper. Large requests are not joined: sixteen batches
 * of a thousand documents held the event loop for half a second.
 */
export class EndOfTurn {
  /** In order. The last one takes further requests, until its bytes are used up. */
  readonly #parts: Part[] = [];

  /** Resolves at the end of this turn, or of a later one, for all calls in their order. */
  wait(bodyBytes: number): Promise<void> {
    let part = this.#parts.at(-1);
    if (part === undefined || part.bytes + bodyBytes > bytesPerTurn) {
      part = newPart();
      this.#parts.push(part);
      if (this.#parts.length === 1) setImmediate(this.#releaseFirst);
    }
    part.bytes += bodyBytes;
    return part.end;
  }

  readonly #releaseFirst = (): void => {
    this.#parts.shift()?.release();
    if (this.#parts.length > 0) setImmediate(this.#releaseFirst);
  };
}

function newPart(): Part {
  let release: (() => void) | undefined;
  const end = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { bytes: 0, end, release: () => release?.() };
}
