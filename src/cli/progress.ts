/** A bar on stderr for long work; nothing at all where nobody looks at a terminal. */

const barWidth = 30;
const redrawMs = 100;

export class Progress {
  readonly #stream: NodeJS.WriteStream;
  readonly #label: string;
  readonly #startedAtMs = Date.now();
  #drawnAtMs = 0;
  #drew = false;

  constructor(label: string, stream: NodeJS.WriteStream = process.stderr) {
    this.#label = label;
    this.#stream = stream;
  }

  update({ done, total }: { done: number; total: number }): void {
    const nowMs = Date.now();
    if (!this.#stream.isTTY || nowMs - this.#drawnAtMs < redrawMs) return;
    this.#drawnAtMs = nowMs;
    this.#drew = true;
    const share = total > 0 ? Math.min(1, done / total) : 0;
    const filled = Math.round(share * barWidth);
    const left = share > 0.02 ? ` ${Math.ceil(((nowMs - this.#startedAtMs) * (1 - share)) / share / 1000)} s left` : '';
    this.#stream.write(`\r\u001B[K${this.#label} [${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}] ${Math.round(share * 100)}%${left}`);
  }

  /** Wipes the bar, so that what follows stands alone. */
  end(): void {
    if (this.#drew) this.#stream.write('\r\u001B[K');
  }
}
