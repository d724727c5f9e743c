/** A body of any length as a file on the server's disk, for as long as somebody works on it. */
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StoaError } from '../errors.js';

/** `body` is the request's, on a route with `streamsBody`. */
export async function withFile<Result>(
  body: unknown,
  bytesMax: number,
  work: (path: string) => Promise<Result>,
): Promise<Result> {
  if (!(body instanceof Readable))
    throw new StoaError('unsupported_media_type', 'An import is sent as lines of JSON.', {
      fix: 'Send application/x-ndjson.',
    });
  const directory = await mkdtemp(join(tmpdir(), 'stoa-import-'));
  try {
    const path = join(directory, 'lines.ndjson');
    await pipeline(
      body,
      (chunks: AsyncIterable<Buffer>) => bounded(chunks, bytesMax),
      createWriteStream(path, { mode: 0o600 }),
    );
    return await work(path);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function* bounded(chunks: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<Buffer> {
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    sizeBytes += chunk.length;
    if (sizeBytes > bytesMax)
      throw new StoaError('too_large', `An import has at most ${bytesMax} bytes.`, {
        fix: 'Split the file, or raise the limit importBytesMax.',
        details: { importBytesMax: bytesMax },
      });
    yield chunk;
  }
}
