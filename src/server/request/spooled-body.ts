/**
 * Stores bodies of any length as files on the server's disk while they are processed, within a limit for all
 * together.
 */
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import { fileFailure, privateFile } from '../../core/files.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { LimitName, Limits } from '../../core/settings/limits.js';
import { holderOf } from '../answer/event-stream.js';

type SpoolLimit = Extract<
  LimitName,
  'importBytesMax' | 'importSpoolBytesPerCallerMax' | 'importSpoolBytesMax'
>;

export class SpooledBodies {
  readonly #limits: Limits;
  /** Bytes on the disk by caller; a caller without a file has no entry. */
  readonly #bytesOf = new Map<string, number>();
  #totalBytes = 0;

  /** Bytes of all files on the disk. */
  get sizeBytes(): number {
    return this.#totalBytes;
  }

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** For a request of a route with `upload`. The file is deleted when `work` has ended. */
  async withFile<Result>(request: FastifyRequest, work: (path: string) => Promise<Result>): Promise<Result> {
    const { body } = request;
    if (!(body instanceof Readable))
      throw new StoaError('unsupported_media_type', 'The body of the import is not application/x-ndjson.', {
        fix: 'Send application/x-ndjson.',
      });
    const holder = holderOf(request);
    let sizeBytes = 0;
    const directory = await mkdtemp(join(tmpdir(), 'stoa-import-')).catch(refuseFile);
    try {
      const path = join(directory, 'lines.ndjson');
      const take = (chunk: Buffer): void => {
        this.#check(holder, sizeBytes, chunk.length);
        sizeBytes += chunk.length;
        this.#add(holder, chunk.length);
      };
      await writeBody(body, path, take);
      return await work(path);
    } finally {
      await rm(directory, { recursive: true, force: true });
      this.#add(holder, -sizeBytes);
    }
  }

  #check(holder: string | undefined, sizeBytes: number, moreBytes: number): void {
    const held = holder === undefined ? 0 : (this.#bytesOf.get(holder) ?? 0);
    this.#refuseAbove('importBytesMax', sizeBytes + moreBytes, 'The file');
    if (holder !== undefined)
      this.#refuseAbove(
        'importSpoolBytesPerCallerMax',
        held + moreBytes,
        'The total of the files that the caller imports',
      );
    this.#refuseAbove(
      'importSpoolBytesMax',
      this.#totalBytes + moreBytes,
      'The total of all running imports',
    );
  }

  #refuseAbove(limit: SpoolLimit, bytes: number, subject: string): void {
    if (bytes <= this.#limits[limit]) return;
    const isShared = limit === 'importSpoolBytesMax';
    throw limitError(isShared ? 'overloaded' : 'too_large', {
      subject,
      unit: "bytes on the server's disk",
      limit,
      limits: this.#limits,
      advice: isShared
        ? 'Try again when other imports have ended'
        : 'Split the file and import one part after the other',
    });
  }

  #add(holder: string | undefined, bytes: number): void {
    this.#totalBytes += bytes;
    if (holder === undefined) return;
    const held = (this.#bytesOf.get(holder) ?? 0) + bytes;
    if (held === 0) this.#bytesOf.delete(holder);
    else this.#bytesOf.set(holder, held);
  }
}

/**
 * A body that is refused is read to its end and dropped, as Node does with an unread body: otherwise the
 * connection stays open, and the next request on it is never read.
 */
async function writeBody(body: Readable, path: string, take: (chunk: Buffer) => void): Promise<void> {
  const file = await open(path, 'wx', privateFile);
  try {
    // A destroyed body could not be read to its end.
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      take(chunk as Buffer); // The body has no encoding, so it yields buffers.
      await file.appendFile(chunk as Buffer);
    }
  } catch (error) {
    body.resume();
    refuseFile(error);
  } finally {
    await file.close();
  }
}

function refuseFile(error: unknown): never {
  throw fileFailure(tmpdir(), error);
}
