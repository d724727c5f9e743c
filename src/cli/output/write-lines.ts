/** Writes an export to standard output, or to a file that appears only when it is complete. */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { rename } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StoaError, fileReasonOf } from '../../core/errors.js';

/** `-` is standard output. Only the owner can read the file. */
export async function writeLines(file: string, lines: AsyncIterable<string | Uint8Array>): Promise<void> {
  if (file === '-') {
    for await (const line of lines) if (!process.stdout.write(line)) await once(process.stdout, 'drain');
    return;
  }
  try {
    await pipeline(Readable.from(lines), createWriteStream(`${file}.partial`, { mode: 0o600 }));
    await rename(`${file}.partial`, file);
  } catch (error) {
    if (error instanceof StoaError) throw error;
    throw new StoaError('invalid_request', `${file} cannot be written: ${fileReasonOf(error)}.`, {
      cause: error,
    });
  }
}
