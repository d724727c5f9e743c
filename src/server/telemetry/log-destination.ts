/**
 * Writes log lines without ever blocking or ending the server: lines that cannot be written at once are
 * dropped and counted.
 */
import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';
import type { DroppedLines } from './metrics.js';

/** Writes bytes at once and returns their number; throws if it would block or if it fails. */
type WriteNow = (bytes: Buffer) => number;

/** The bytes that may wait in a stream that writes in the background. */
const waitingBytesMax = 64 * 1024;

export class LogDestination implements DestinationStream, DroppedLines {
  dropped = 0;
  readonly #writeNow: WriteNow;
  /** The rest of a line that was partly written: it must be written before the next line. */
  #rest: Buffer = Buffer.alloc(0);
  #reported = 0;

  constructor() {
    this.#writeNow = standardError(() => (this.dropped += 1));
  }

  write(line: string): void {
    try {
      this.#put(this.#rest);
      if (this.#rest.length === 0) this.#reportDropped();
      // Nothing may be written between the parts of a line.
      if (this.#rest.length === 0) this.#put(Buffer.from(line));
      else this.dropped += 1;
    } catch {
      // The disk is full or the reader is gone or slow. There is no other place to report this.
      this.dropped += 1;
    }
  }

  #reportDropped(): void {
    const missing = this.dropped - this.#reported;
    if (missing > 0) this.#put(Buffer.from(droppedText(missing)));
    this.#reported += missing;
  }

  /** Throws if no byte was written. The rest of a partly written line comes before the next line. */
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
 * A file takes bytes at once or fails. A pipe or a terminal blocks its writer, so it is opened again in
 * non-blocking mode: setting the mode on the descriptor itself would change it for other programs too.
 */
function standardError(onLost: () => void): WriteNow {
  const kind = fstatSync(2);
  if (kind.isFile()) return (bytes) => writeSync(2, bytes);
  if (kind.isFIFO() || kind.isCharacterDevice()) {
    const again = openedAgain();
    if (again !== undefined) return (bytes) => writeSync(again, bytes);
  }
  return (bytes) => {
    if (process.stderr.writableLength > waitingBytesMax)
      throw new RangeError('The log has more than 65,536 bytes waiting (waitingBytesMax).');
    process.stderr.write(bytes, (error) => {
      if (error) onLost();
    });
    return bytes.length;
  };
}

/** Undefined if the system has no such path, or the terminal belongs to another user. */
function openedAgain(): number | undefined {
  try {
    return openSync('/proc/self/fd/2', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
}
