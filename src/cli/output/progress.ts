/** A progress line on a terminal; nothing if the output is not a terminal. */
import type { Progress as Step, ProgressPhase } from '../../operations/model.js';
import { Pace } from './pace.js';

const barWidth = 30;
const redrawMs = 100;

/** The label of each phase of work that has several. */
const phases: Readonly<Record<ProgressPhase, string>> = {
  checking: 'Checking',
  writing: 'Writing',
  records: 'Checking records',
  index: 'Checking the search index',
};

export type TerminalStream = NodeJS.WritableStream & { isTTY?: boolean };

export class Progress {
  /** Undefined if nothing is drawn. */
  readonly #stream: TerminalStream | undefined;
  #label: string;
  #phase: ProgressPhase | undefined;
  #pace: Pace;
  #drawnAtMs = 0;
  #drew = false;

  /** `before` is what an earlier run has done. */
  constructor(label: string, stream: TerminalStream | undefined, before = 0) {
    this.#label = label;
    this.#pace = new Pace(before);
    this.#stream = stream?.isTTY === true ? stream : undefined;
  }

  /**
   * A bar, for work with a known total. With the name of what is counted, it also shows how many a second.
   * Each phase has a bar of its own, because a phase says nothing about the time that the next one takes.
   */
  readonly update = (work: Step, unit?: string): void => {
    if (work.phase !== undefined && work.phase !== this.#phase) {
      this.#phase = work.phase;
      this.#label = phases[work.phase] ?? this.#label;
      this.#pace = new Pace();
    }
    const { share, perSecond, secondsLeft } = this.#pace.at(work);
    const nowMs = Date.now();
    if (!this.#isDue(nowMs)) return;
    const filled = Math.round(share * barWidth);
    const rate = unit === undefined ? '' : ` ${Math.round(perSecond)} ${unit}/s`;
    const left = secondsLeft === null ? '' : ` ${timeText(secondsLeft)} left`;
    this.#draw(
      nowMs,
      `[${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}] ${Math.round(share * 100)}%${rate}${left}`,
    );
  };

  /** A text, for work with an unknown total. */
  show(text: () => string): void {
    const nowMs = Date.now();
    if (this.#isDue(nowMs)) this.#draw(nowMs, text());
  }

  /** Clears the line before other output. */
  end(): void {
    if (this.#drew) this.#stream?.write('\r\u001B[K');
    this.#drew = false;
  }

  #isDue(nowMs: number): boolean {
    return this.#stream !== undefined && nowMs - this.#drawnAtMs >= redrawMs;
  }

  #draw(nowMs: number, text: string): void {
    this.#drawnAtMs = nowMs;
    this.#drew = true;
    this.#stream?.write(`\r\u001B[K${this.#label} ${text}`);
  }
}

function timeText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}
