/** Work that is due whether or not anybody asks: lapsed leases, silent agents, expired tokens. Any server does it, in small steps. */
import { type PostgresSql, query } from '../connection.js';

export interface SweepsOptions {
  readonly sweeps: readonly ((isOver: () => boolean) => Promise<void>)[];
  readonly sql: PostgresSql;
  readonly intervalMs: number | undefined;
  readonly onError: (error: unknown, about: string) => void;
}

const defaultIntervalMs = 1_000;
/** Rounds between two counts of the leases. */
const roundsPerCount = 5;

export class Sweeps {
  readonly #options: SweepsOptions;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #rounds = 0;
  #isOver = false;
  #isFailing = false;
  #liveLeases = 0;

  constructor(options: SweepsOptions) {
    this.#options = options;
  }

  /** As of the last count. */
  get liveLeases(): number {
    return this.#liveLeases;
  }

  start(): void {
    const begin = (): void => {
      this.#round ??= this.#sweep().finally(() => {
        this.#round = undefined;
      });
    };
    this.#timer = setInterval(begin, this.#options.intervalMs ?? defaultIntervalMs);
    this.#timer.unref();
    begin();
  }

  async close(): Promise<void> {
    this.#isOver = true;
    clearInterval(this.#timer);
    await this.#round;
  }

  async #sweep(): Promise<void> {
    const { sweeps, onError } = this.#options;
    try {
      for (const sweep of sweeps) await sweep(() => this.#isOver);
      if (this.#rounds % roundsPerCount === 0) await this.#count();
      this.#rounds += 1;
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) onError(error, 'sweeping leases and tokens; it is tried again');
      this.#isFailing = true;
    }
  }

  async #count(): Promise<void> {
    const [row] = await query<{ live: string }>(
      this.#options.sql,
      `SELECT (SELECT count(*) FROM registry.agents WHERE lease_holder IS NOT NULL AND lease_expires_at > clock_timestamp())
        + (SELECT count(*) FROM workspaces.leases WHERE holder IS NOT NULL AND expires_at > clock_timestamp()) AS live`,
    );
    this.#liveLeases = Number(row?.live ?? 0);
  }
}
