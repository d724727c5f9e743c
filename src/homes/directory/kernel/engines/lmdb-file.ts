/** Checks of LMDB's file format before LMDB maps the file into memory. */
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { endianness } from 'node:os';
import { dirname } from 'node:path';
import { damagedData } from './checked.js';
import { isMissing } from '../../../../core/files.js';

/** The offsets of the fields in a meta page, in lmdb 3.5's format. */
const magicAt = 24;
const pageSizeAt = 48;
const lastPageAt = 144;
const transactionAt = 152;
const metaBytes = 160;
const magic = 0xbeefc0de;

/**
 * Makes an existing file safe to map. One without its two meta pages, which lmdb 3.5 answers with a crash, is
 * refused. One that is shorter than its newest meta page says is lengthened: reading a map beyond the file's
 * end kills the process with SIGBUS, a page of zeros is reported as damage. In a valid file the added pages
 * are free pages, so nothing changes.
 */
export async function checkFile(path: string): Promise<void> {
  if (endianness() !== 'LE') return;
  let file: FileHandle;
  try {
    file = await open(path, 'r+');
  } catch (thrown) {
    if (isMissing(thrown)) return;
    throw thrown;
  }
  try {
    const { size } = await file.stat();
    if (size === 0) return;
    const first = await readMeta(file, 0);
    const second = first === undefined ? undefined : await readMeta(file, first.pageSizeBytes);
    if (first === undefined || second === undefined) {
      throw damagedData(dirname(path), 'data.mdb does not begin with the two meta pages of LMDB');
    }
    const newest = first.transaction > second.transaction ? first : second;
    const needed = (newest.lastPage + 1) * first.pageSizeBytes;
    if (size < needed) await lengthen(file, needed, path);
  } finally {
    await file.close();
  }
}

/** A length that no file can have is damage of the meta page. */
async function lengthen(file: FileHandle, sizeBytes: number, path: string): Promise<void> {
  try {
    await file.truncate(sizeBytes);
  } catch (thrown) {
    throw damagedData(dirname(path), thrown);
  }
}

interface Meta {
  pageSizeBytes: number;
  lastPage: number;
  transaction: bigint;
}

/** A meta page, or undefined if there is none. */
async function readMeta(file: FileHandle, position: number): Promise<Meta | undefined> {
  const page = Buffer.alloc(metaBytes);
  const { bytesRead } = await file.read(page, 0, metaBytes, position);
  if (bytesRead < metaBytes || page.readUInt32LE(magicAt) !== magic) return undefined;
  return {
    pageSizeBytes: page.readUInt32LE(pageSizeAt),
    lastPage: Number(page.readBigUInt64LE(lastPageAt)),
    transaction: page.readBigUInt64LE(transactionAt),
  };
}
