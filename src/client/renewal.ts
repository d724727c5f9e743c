/** A lease that renews itself three times in its life, until it is let go of or lost. No Node built-ins. */
import { StoaError } from '../core/errors.js';

/** The lease is lost: it lapsed, or what it was on is gone or another's. */
export class LostEvent extends Event {
  constructor(readonly error: StoaError) {
    super('lost');
  }
}

/** The server may renew it the next time. */
const passing: ReadonlySet<string> = new Set([
  'unreachable',
  'overloaded',
  'closed',
  'rate_limited',
  'writes_stopped',
  'disk_full',
  'backend_unavailable',
  'engine',
  'internal',
]);

/** Renews once; the signal ends it when it no longer matters. */
type Renew = (signal: AbortSignal) => Promise<unknown>;

/** Tells with `lost`, and with its signal, when it is held no more. */
export class Renewal extends EventTarget {
  readonly #lifeMs: number;
  readonly #renew: Renew;
  readonly #lost = new AbortController();
  /** Ends a renewal that is under way. */
  readonly #over = new AbortController();
  #renewing: ReturnType<typeof setTimeout> | undefined;
  #lapsing: ReturnType<typeof setTimeout> | undefined;

  /** `lifeMs` by the server's clock, which alone decides; `takenMs` by this machine's. */
  constructor({ lifeMs, takenMs }: { lifeMs: number; takenMs: number }, renew: Renew) {
    super();
    this.#lifeMs = Math.max(1, lifeMs);
    this.#renew = renew;
    this.#hold(takenMs);
  }

  /** Aborted when the lease is lost: pass it to whatever does the work. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Renews no longer, and tells nothing of it. */
  protected letGo(): void {
    clearTimeout(this.#renewing);
    clearTimeout(this.#lapsing);
    this.#over.abort();
  }

  #hold(sinceMs: number): void {
    clearTimeout(this.#lapsing);
    // Also while a request hangs: what the lease guards must stop in time.
    this.#lapsing = setTimeout(
      () => this.#lose(new StoaError('fenced', 'The lease lapsed while the server did not answer.')),
      sinceMs + this.#lifeMs - Date.now(),
    );
    this.#renewing = setTimeout(() => void this.#beat(), this.#lifeMs / 3);
  }

  async #beat(): Promise<void> {
    const sentMs = Date.now();
    try {
      await this.#renew(this.#over.signal);
      if (!this.#over.signal.aborted) this.#hold(sentMs);
    } catch (error) {
      if (this.#over.signal.aborted) return;
      const reason =
        error instanceof StoaError
          ? error
          : new StoaError('internal', 'The lease could not be renewed.', { cause: error });
      if (passing.has(reason.code)) this.#renewing = setTimeout(() => void this.#beat(), this.#lifeMs / 3);
      else this.#lose(reason);
    }
  }

  #lose(error: StoaError): void {
    if (this.#over.signal.aborted) return;
    this.letGo();
    this.#lost.abort(error);
    this.dispatchEvent(new LostEvent(error));
  }
}
