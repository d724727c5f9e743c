/** What a limit is. Each group of limits has a file beside this one. */

export interface LimitDefinition {
  readonly default: number;
  /** One sentence for the configuration page. */
  readonly about: string;
  /** An operator may change it. A limit without this is fixed for operators; only code can change it. */
  readonly setting?: true;
  /**
   * Must be above 0: with 0 a timer would fire without pause, a step would make no progress, or every request
   * would fail.
   */
  readonly positive?: true;
  /** The highest value that works. */
  readonly max?: number;
}

export type LimitGroup = Readonly<Record<string, LimitDefinition>>;

/**
 * Node's timers hold 24 days and treat a longer time as one millisecond; some timers add a little to their
 * limit.
 */
export const timerSecondsMax = 1_000_000;
