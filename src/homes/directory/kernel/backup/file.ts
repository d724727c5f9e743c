/** The files of a backup: frames of bytes, each with a checksum, and one hash for the whole file. */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { StoaError, messageOf } from '../../../../core/errors.js';
import { privateFile } from '../../../../core/files.js';

/** Facts about a finished file, kept in the backup's description. */
export interface FileFacts {
  name: string;
  sizeBytes: number;
  sha256: string;
}

const headerBytes = 8;
const flushBytes = 1024 * 1024;
/** Windows has neither. */
const noFollow = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
/** A frame is not larger than the largest group of transactions. A larger length means damage. */
const frameBytesMax = 1024 * 1024 * 1024;

/** Writes frames. `finish` writes a frame of length zero, which shows that the file is complete. */
export class FrameWriter {
  readonly #file: FileHandle;
  readonly #hash = createHash('sha256');
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** The disk writes while the next frames are made. */
  #writing: Promise<unknown> | undefined;
  sizeBytes = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async create(path: string): Promise<FrameWriter> {
    return new FrameWriter(await open(path, 'wx', privateFile));
  }

  async write(payload: Buffer): Promise<void> {
    const header = Buffer.allocUnsafe(headerBytes);
    header.writeUInt32BE(payload.length, 0);
    header.writeUInt32BE(crc32(payload), 4);
    this.#pending.push(header, payload);
    this.#pendingBytes += headerBytes + payload.length;
    if (this.#pendingBytes >= flushBytes) await this.#flush();
  }

  /** Ends the file and waits for the disk. */
  async finish(name: string): Promise<FileFacts> {
    await this.write(Buffer.alloc(0));
    await this.#flush();
    await this.#writing;
    await this.#file.sync();
    await this.#file.close();
    return { name, sizeBytes: this.sizeBytes, sha256: this.#hash.digest('hex') };
  }

  async abandon(): Promise<void> {
    await this.#writing?.catch(ignored);
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    await this.#writing;
    const [buffers, bytes] = [this.#pending, this.#pendingBytes];
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#writing = writeAll(this.#file, buffers, bytes);
    void this.#writing.catch(ignored);
    for (const each of buffers) this.#hash.update(each);
    this.sizeBytes += bytes;
  }
}

/** The next flush, or the end of the file, reports the failure of a write; for an abandoned file it does not matter. */
function ignored(): void {}

async function writeAll(file: FileHandle, buffers: readonly Buffer[], bytes: number): Promise<void> {
  const { bytesWritten } = await file.writev(buffers);
  if (bytesWritten === bytes) return;
  // A part was written, for instance because the disk is full: the rest succeeds or reports why.
  await file.appendFile(Buffer.concat(buffers).subarray(bytesWritten));
}

/** The payloads of a file in order. Throws at the first damaged frame, and for a file without its end. */
export async function* readFrames(
  path: string,
  facts: FileFacts,
  onBytes?: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const file = await openBackupFile(path);
  const hash = createHash('sha256');
  try {
    const { size } = await file.stat();
    let at = 0;
    for (;;) {
      const header = await readExactly(file, path, at, headerBytes);
      const length = header.readUInt32BE(0);
      if (length > frameBytesMax)
        throw damaged(
          path,
          `the frame at byte ${at} has a length of ${length} bytes, which exceeds ${frameBytesMax}`,
        );
      // Checked before the memory is allocated, because the length can be any number.
      if (at + headerBytes + length > size)
        throw damaged(path, `it ends at byte ${size}, before its last frame`);
      const payload = await readExactly(file, path, at + headerBytes, length);
      if (crc32(payload) !== header.readUInt32BE(4))
        throw damaged(path, `the checksum of the frame at byte ${at} is wrong`);
      hash.update(header);
      hash.update(payload);
      at += headerBytes + length;
      onBytes?.(headerBytes + length);
      if (length === 0) break;
      yield payload;
    }
    if (at !== facts.sizeBytes || (await file.stat()).size !== at)
      throw damaged(path, `its size is not ${facts.sizeBytes} bytes, as written in backup.json`);
    if (hash.digest('hex') !== facts.sha256)
      throw damaged(path, 'its SHA-256 differs from the one in backup.json');
  } finally {
    await file.close();
  }
}

/** The content of a small file, or undefined if it does not exist. */
export async function readSmallFile(path: string, bytesMax: number): Promise<Buffer | undefined> {
  let file: FileHandle;
  try {
    file = await openRegular(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error instanceof StoaError ? error : damaged(path, messageOf(error));
  }
  try {
    const { size } = await file.stat();
    if (size > bytesMax) throw damaged(path, `it has ${size} bytes, which exceeds ${bytesMax}`);
    return await readExactly(file, path, 0, size);
  } finally {
    await file.close();
  }
}

async function openBackupFile(path: string): Promise<FileHandle> {
  try {
    return await openRegular(path);
  } catch (error) {
    throw error instanceof StoaError ? error : damaged(path, messageOf(error));
  }
}

/** Opens a regular file only. A link could lead elsewhere, and a pipe might never end. */
async function openRegular(path: string): Promise<FileHandle> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | noFollow);
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ELOOP' ? damaged(path, 'it is a symbolic link') : error;
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw damaged(path, 'it is not a regular file');
}

async function readExactly(
  file: FileHandle,
  path: string,
  position: number,
  length: number,
): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) throw damaged(path, `it ends at byte ${position + filled}, before its last frame`);
    filled += bytesRead;
  }
  return buffer;
}

function damaged(path: string, reason: string): StoaError {
  return new StoaError('damaged_backup', `${path} cannot be used: ${reason}.`, {
    fix: 'Use another copy of this backup, or restore to a point before it.',
  });
}
