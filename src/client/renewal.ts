/** A lease that renews itself three times in its life, until it is released or lost. No Node built-ins. */
import { StoaError } from '../core/errors.js';

/** The lease is lost: it expired, its record was deleted, or another holder has it. */
export class LostEvent extends Event {
  constructor(readonly error: StoaError) {
    super('lost');
  }
}

/**
 * A time of this machine from which a lease just given has its whole life; undefined if the lease has ended. The server
 * may have waited before it gave the lease, so an answer that took long is followed by a renewal.
 */
export async function heldSince(
  { sentMs, lifeMs }: { sentMs: number; lifeMs: number },
  renew: () => Promise<unknown>,
): Promise<number | undefined> {
  const answeredMs = performance.now();
  if (answeredMs - sentMs < lifeMs / 3) return sentMs;
  try {
    await renew();
    return answeredMs;
  } catch (error) {
    if (error instanceof StoaError && error.code === 'fenced') return undefined;
    throw error;
  }
}

/** Renews once, and returns the new life if it can differ. The signal is aborted when the renewal no longer matters. */
type Renew = (signal: AbortSignal) => Promise<{ lifeMs: number } | undefined>;

/** Dispatches `lost` and aborts its signal when the lease is lost. */
export class Renewal extends EventTarget {
  #lifeMs = 1;
  readonly #renew: Renew;
  readonly #lost = new AbortController();
  /** Aborts a running renewal. */
  readonly #over = new AbortController();
  #renewing: ReturnType<typeof setTimeout> | undefined;
  #lapsing: ReturnType<typeof setTimeout> | undefined;

  /** `lifeMs` is by the server's clock, which decides; `takenMs` is by `performance.now()` of this machine. */
  constructor({ lifeMs, takenMs }: { lifeMs: number; takenMs: number }, renew: Renew) {
    super();
    this.#renew = renew;
    this.#hold(takenMs, lifeMs);
  }

  /** Aborted when the lease is lost. Pass it to the work that the lease guards. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Stops renewing, without an event. */
  protected stopRenewing(): void {
    clearTimeout(this.#renewing);
    clearTimeout(this.#lapsing);
    this.#over.abort();
  }

  #hold(sinceMs: number, lifeMs: number): void {
    this.#lifeMs = Math.max(1, lifeMs);
    clearTimeout(this.#lapsing);
    // Also while a request hangs: the guarded work must stop in time.
    this.#lapsing = setTimeout(
      () => this.#lose(new StoaError('fenced', 'The lease expired while the server did not answer.')),
      sinceMs + this.#lifeMs - performance.now(),
    );
    this.#renewing = setTimeout(() => void this.#beat(), this.#lifeMs / 3);
  }

  async #beat(): Promise<void> {
    const sentMs = performance.now();
    try {
      const { lifeMs } = (await this.#renew(this.#over.signal)) ?? { lifeMs: this.#lifeMs };
      if (!this.#over.signal.aborted) this.#hold(sentMs, lifeMs);
    } catch (error) {
      if (this.#over.signal.aborted) return;
      const reason =
        error instanceof StoaError
          ? error
          : new StoaError('internal', 'The lease could not be renewed.', { cause: error });
      if (reason.passes !== undefined) this.#renewing = setTimeout(() => void this.#beat(), this.#lifeMs / 3);
      else this.#lose(reason);
    }
  }

  #lose(error: StoaError): void {
    if (this.#over.signal.aborted) return;
    this.stopRenewing();
    this.#lost.abort(error);
    this.dispatchEvent(new LostEvent(error));
  }
}
