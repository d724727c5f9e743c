/** The bytes of the two logs that every group writes beside its data: the change feed and the redo log. */
import { StoaError, messageOf } from '../../../../core/errors.js';
import type { WriteOperation } from '../engine.js';
import type { Commit } from '../../../../feed/port.js';

/** Everything that one transaction wrote. It can be replayed from this. */
export interface RedoTransaction {
  /** The number of the transaction in the redo log; each transaction that writes gets the next number. */
  lsn: number;
  atMs: number;
  /** The sequence number in the feed and what it announced, or null when it announced nothing. */
  commit: Commit | null;
  operations: readonly WriteOperation[];
}

/**
 * A record of either log starts with the bytes written to that log before it, so that the size of a part of
 * the log is a subtraction.
 */
export interface LogRecord<T> {
  bytesBefore: number;
  items: T[];
}

const formatVersion = 1;
const deleted = 0xffff_ffff;

/** A position in a log as a key: eight bytes, so that byte order is number order. */
export function positionKey(position: number): Buffer {
  const key = Buffer.allocUnsafe(8);
  key.writeBigUInt64BE(BigInt(position));
  return key;
}

export function positionOf(key: Buffer): number {
  return Number(key.readBigUInt64BE(0));
}

/** A commit as both logs write it. Throws if a change contains something that is not JSON. */
export function commitText(commit: Commit): string {
  return JSON.stringify(commit);
}

/** Feed records are text: few, small, and readable with any tool. */
export function encodeFeed(
  bytesBefore: number,
  commits: readonly Commit[],
  texts: readonly string[] = commits.map(commitText),
): Buffer {
  return Buffer.from(`[${formatVersion},${bytesBefore},[${texts.join(',')}]]`);
}

export function decodeFeed(value: Buffer): LogRecord<Commit> {
  const [version, bytesBefore, items] = decoded(
    'change feed',
    () => JSON.parse(value.toString()) as [number, number, Commit[]],
  );
  if (version !== formatVersion) throw unknownFormat('change feed', version);
  return { bytesBefore, items };
}

/**
 * Redo records are binary, because they contain every written value. `texts` are those of the transactions
 * with a commit, in order.
 */
export function encodeRedo(
  bytesBefore: number,
  transactions: readonly RedoTransaction[],
  texts: readonly string[] = textsOf(transactions),
): Buffer {
  const families = new Map<string, number>();
  let size = 1 + 8 + 2 + 4;
  for (const text of texts) size += Buffer.byteLength(text);
  for (const transaction of transactions) {
    size += 8 + 8 + 4 + 4;
    for (const { family, key, value } of transaction.operations) {
      if (!families.has(family)) {
        families.set(family, families.size);
        size += 1 + Buffer.byteLength(family);
      }
      size += 2 + 2 + key.length + 4 + (value?.length ?? 0);
    }
  }
  const writer = new Writer(size);
  writer.u8(formatVersion);
  writer.u64(bytesBefore);
  writer.u16(families.size);
  for (const family of families.keys()) {
    const name = Buffer.from(family);
    writer.u8(name.length);
    writer.bytes(name);
  }
  writer.u32(transactions.length);
  let written = 0;
  for (const transaction of transactions) {
    writer.u64(transaction.lsn);
    writer.u64(transaction.atMs);
    if (transaction.commit === null) writer.u32(0);
    else writer.text(texts[written++] as string);
    writer.u32(transaction.operations.length);
    for (const { family, key, value } of transaction.operations) {
      writer.u16(families.get(family) as number);
      writer.u16(key.length);
      writer.bytes(key);
      writer.u32(value === undefined ? deleted : value.length);
      if (value !== undefined) writer.bytes(value);
    }
  }
  return writer.finish();
}

function textsOf(transactions: readonly RedoTransaction[]): string[] {
  return transactions.flatMap(({ commit }) => (commit === null ? [] : [commitText(commit)]));
}

export function decodeRedo(record: Buffer): LogRecord<RedoTransaction> {
  return decoded('redo log', () => readRedo(record));
}

function readRedo(record: Buffer): LogRecord<RedoTransaction> {
  const reader = new Reader(record);
  const version = reader.u8();
  if (version !== formatVersion) throw unknownFormat('redo log', version);
  const bytesBefore = reader.u64();
  const families = Array.from({ length: reader.u16() }, () => reader.bytes(reader.u8()).toString());
  const items = Array.from({ length: reader.u32() }, (): RedoTransaction => {
    const lsn = reader.u64();
    const atMs = reader.u64();
    const commitBytes = reader.bytes(reader.u32());
    const commit = commitBytes.length === 0 ? null : (JSON.parse(commitBytes.toString()) as Commit);
    const operations = Array.from({ length: reader.u32() }, (): WriteOperation => {
      const family = families[reader.u16()];
      const key = reader.bytes(reader.u16());
      const length = reader.u32();
      if (family === undefined)
        throw new StoaError('serialization', 'A redo record names a family that it does not list.');
      return { family, key, value: length === deleted ? undefined : reader.bytes(length) };
    });
    return { lsn, atMs, commit, operations };
  });
  return { bytesBefore, items };
}

/** Only the running total of a redo record, without decoding the rest. */
export function redoBytesBefore(record: Buffer): number {
  return decoded('redo log', () => {
    const reader = new Reader(record);
    const version = reader.u8();
    if (version !== formatVersion) throw unknownFormat('redo log', version);
    return reader.u64();
  });
}

/** An unreadable record is damaged data, with its own error code. */
function decoded<T>(log: string, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (error instanceof StoaError) throw error;
    throw new StoaError(
      'serialization',
      `The ${log} has a record that cannot be read: ${messageOf(error)}.`,
      {
        fix: 'Restore a backup into a new directory with "stoa restore".',
        cause: error,
      },
    );
  }
}

function unknownFormat(log: string, version: number): StoaError {
  return new StoaError(
    'newer_data',
    `A record of the ${log} has format ${version}. This program reads format ${formatVersion}.`,
    { fix: 'Use the version of Stoa that wrote the data, or a newer version.' },
  );
}

class Writer {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(size: number) {
    this.#buffer = Buffer.allocUnsafe(size);
  }

  // Byte by byte: Buffer's own methods look at each argument first, and a record has hundreds of numbers.

  u8(value: number): void {
    this.#buffer[this.#at] = value;
    this.#at += 1;
  }

  u16(value: number): void {
    this.u8(value >>> 8);
    this.u8(value);
  }

  u32(value: number): void {
    this.u16(value >>> 16);
    this.u16(value);
  }

  /** Written as two halves: a BigInt would need an allocation for each number, and every number here is below 2^53. */
  u64(value: number): void {
    this.u32(Math.floor(value / 0x1_0000_0000));
    this.u32(value >>> 0);
  }

  bytes(value: Buffer): void {
    this.#buffer.set(value, this.#at);
    this.#at += value.length;
  }

  /** Its length in bytes, then the text itself. */
  text(value: string): void {
    const length = this.#buffer.write(value, this.#at + 4);
    this.u32(length);
    this.#at += length;
  }

  finish(): Buffer {
    if (this.#at !== this.#buffer.length) {
      throw new StoaError(
        'internal',
        `A redo record has ${this.#at} bytes. Expected ${this.#buffer.length}.`,
      );
    }
    return this.#buffer;
  }
}

class Reader {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  u8(): number {
    this.#at += 1;
    return this.#buffer.readUInt8(this.#at - 1);
  }

  u16(): number {
    this.#at += 2;
    return this.#buffer.readUInt16BE(this.#at - 2);
  }

  u32(): number {
    this.#at += 4;
    return this.#buffer.readUInt32BE(this.#at - 4);
  }

  u64(): number {
    return this.u32() * 0x1_0000_0000 + this.u32();
  }

  bytes(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#buffer.length)
      throw new StoaError('serialization', 'A redo record ends before it is complete.');
    const bytes = this.#buffer.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }
}
