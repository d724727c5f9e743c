/** The progress of an import on a terminal: the file on its way to the server, then what the server does. */
import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { StoaError, fileReasonOf } from '../../../core/errors.js';
import type { OnProgress } from '../../../operations/model.js';
import type { Output } from '../../output/output.js';
import type { Progress } from '../../output/progress.js';

export class TransferBar {
  readonly #sending: Progress;
  readonly #working: Progress;

  constructor(output: Output) {
    this.#sending = output.progress('Sending');
    this.#working = output.progress('Importing');
  }

  readonly work: OnProgress = (step) => this.#working.update(step);

  /** The bytes of a file while they are sent. */
  async sent(path: string): Promise<Readable> {
    const total = await sizeOf(path);
    return Readable.from(measured(createReadStream(path), (done) => this.#sending.update({ done, total })));
  }

  end(): void {
    this.#sending.end();
    this.#working.end();
  }
}

/** Passes chunks on and reports their number of bytes. */
export async function* measured<Chunk extends string | Uint8Array>(
  chunks: AsyncIterable<Chunk>,
  onSize: (sizeBytes: number) => void,
): AsyncGenerator<Chunk> {
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    sizeBytes += Buffer.byteLength(chunk);
    onSize(sizeBytes);
    yield chunk;
  }
}

/** Read before the request, because a failure during the upload looks like an unreachable server. */
async function sizeOf(path: string): Promise<number> {
  let reason = 'it is a directory';
  try {
    const facts = await stat(path);
    if (!facts.isDirectory()) {
      await access(path, constants.R_OK);
      return facts.size;
    }
  } catch (error) {
    reason = fileReasonOf(error);
  }
  throw new StoaError('invalid_request', `${path} cannot be read: ${reason}.`);
}
