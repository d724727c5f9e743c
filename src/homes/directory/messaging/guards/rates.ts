/** Rates of requests and violations: windows in memory, most of them written down every few seconds. */
import type { RateKey } from '../../../../messaging/port.js';
import { everyEndpoint } from '../../../../messaging/gate/rate-limits.js';
import { type RateDecision, SlidingWindows } from '../../../../messaging/gate/sliding-windows.js';
import type { Kernel } from '../../kernel/kernel.js';
import { KeptWindows } from './kept-windows.js';

const hourMs = 3_600_000;

export class Rates {
  readonly #kernel: Kernel;
  readonly #windows = new SlidingWindows({ isKept: true });
  readonly #violations = new SlidingWindows({ isKept: true });
  /** Counters of all requests from an address. They only limit load, so a restart may lose them. */
  readonly #loads = new SlidingWindows();
  readonly #kept: KeptWindows;

  constructor(kernel: Kernel, onError: (error: unknown, about: string) => void) {
    this.#kernel = kernel;
    this.#kept = new KeptWindows({
      kernel,
      kinds: { rates: this.#windows, violations: this.#violations },
      onError,
    });
  }

  /** Loads the windows that were written down before the last stop. */
  start(): Promise<void> {
    return this.#kept.start();
  }

  take({ endpoint, scope, subject }: RateKey, limit: number, windowSeconds: number): RateDecision {
    const windows = endpoint === everyEndpoint ? this.#loads : this.#windows;
    return windows.take(`${endpoint} ${scope} ${subject}`, limit, windowSeconds * 1000, this.#kernel.nowMs());
  }

  giveBack({ endpoint, scope, subject }: RateKey): void {
    this.#windows.giveBack(`${endpoint} ${scope} ${subject}`);
  }

  /** True if the address has reached the number of violations that blocks it. */
  recordViolation(address: string): boolean {
    const { violationsPerHourMax } = this.#kernel.limits;
    const nowMs = this.#kernel.nowMs();
    this.#violations.take(address, violationsPerHourMax, hourMs, nowMs);
    if (this.#violations.count(address, hourMs, nowMs) < violationsPerHourMax) return false;
    this.#violations.drop(address);
    return true;
  }

  forgetViolations(address: string): void {
    this.#violations.drop(address);
  }

  close(): Promise<void> {
    return this.#kept.close();
  }
}
