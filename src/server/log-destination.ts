/** Where log lines go. The server never waits for its log and never ends with it: what cannot be written at once is dropped and counted. */
import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import type { DroppedLines } from './metrics.js';

/** Writes bytes at once and answers how many; throws where it would have to wait, and where it fails. */
type WriteNow = (bytes: Buffer) => number;

/** What may wait in a stream that writes by itself. */
const waitingBytesMax = 64 * 1024;

export class LogDestination implements DestinationStream, DroppedLines {
  dropped = 0;
  readonly #writeNow: WriteNow;
  /** Of a line that was begun: it must end before the next one. */
  #rest: Buffer = Buffer.alloc(0);
  #reported = 0;

  constructor() {
    this.#writeNow = standardError(() => (this.dropped += 1));
  }

  write(line: string): void {
    try {
      this.#put(this.#rest);
      const missing = this.dropped - this.#reported;
      if (missing > 0) this.#put(Buffer.from(droppedText(missing)));
      this.#reported += missing;
      this.#put(Buffer.from(line));
    } catch {
      // A full disk, a reader that does not read or is gone: there is no place left where this could be reported.
      this.dropped += 1;
    }
  }

  /** Throws where nothing at all was written. Of a line that was begun the rest comes before the next one. */
  #put(bytes: Buffer): void {
    let left = bytes;
    try {
      while (left.length > 0) left = left.subarray(this.#writeNow(left));
    } catch (error) {
      if (left === bytes) throw error;
    }
    this.#rest = left;
  }
}

function droppedText(lines: number): string {
  return `${JSON.stringify({ level: 40, time: new Date().toISOString(), name: 'stoa', dropped: lines, msg: `${lines} log lines were dropped because they could not be written.` })}\n`;
}

/**
 * A file takes bytes at once or fails. A pipe and a terminal make their writer wait for a reader, so that they are
 * opened once more without waiting: to set that on the descriptor itself would set it for other programs too.
 */
function standardError(onLost: () => void): WriteNow {
  const kind = fstatSync(2);
  if (kind.isFile()) return (bytes) => writeSync(2, bytes);
  if (kind.isFIFO() || kind.isCharacterDevice()) {
    const again = openedAgain();
    if (again !== undefined) return (bytes) => writeSync(again, bytes);
  }
  return (bytes) => {
    if (process.stderr.writableLength > waitingBytesMax) throw new RangeError('The log is not read.');
    process.stderr.write(bytes, (error) => {
      if (error) onLost();
    });
    return bytes.length;
  };
}

/** Undefined where the system has no such names, or the terminal belongs to somebody else. */
function openedAgain(): number | undefined {
  try {
    return openSync('/proc/self/fd/2', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
}
