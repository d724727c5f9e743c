/** An export read back: line by line, each checked, the whole compared with its last line. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { StoaError, jsonFaultOf, messageOf } from '../errors.js';
import { fieldErrors } from '../validate.js';
import { type RecordKind, recordKinds } from './kinds.js';
import { type Header, type Trailer, type TransferRecord, formatName, formatVersion } from './model.js';

export interface ReadLine {
  number: number;
  /** Bytes of the line with its end. */
  sizeBytes: number;
  /** Undefined where the line is bad; then `reason` says why. */
  record: { kind: RecordKind; value: TransferRecord } | undefined;
  reason: string | null;
}

const kindsByType = new Map(recordKinds.map((kind) => [kind.type, kind]));
const newline = 0x0a;

/** What a file holds beside its records; known when every line has been read. */
export interface FileFacts {
  header: Header;
  sha256: string;
  /** Why the end is not as it should be: the file was cut, or changed. */
  broken: string | null;
}

/** Reads every line and hands each record on; header and last line are checked here. */
export async function readExport(path: string, onLine: (line: ReadLine) => void | Promise<void>): Promise<FileFacts> {
  const hash = createHash('sha256');
  const counts: Record<string, number> = {};
  let header: Header | undefined;
  let trailer: Trailer | undefined;
  let sha256 = '';
  for await (const { number, bytes } of linesOf(path)) {
    const parsed = parse(bytes);
    if (header === undefined) {
      header = headerOf(parsed);
    } else if (trailer !== undefined) {
      throw new StoaError('invalid_request', `Line ${number}: there is more behind the last line of the export.`);
    } else if (typeOf(parsed) === 'stoa.end') {
      sha256 = hash.digest('hex');
      // Compared member by member below.
      trailer = parsed as Trailer;
      continue;
    } else {
      const line = checkedLine(number, bytes.length, parsed);
      const type = typeOf(parsed);
      if (type !== undefined) counts[type] = (counts[type] ?? 0) + 1;
      await onLine(line);
    }
    hash.update(bytes);
  }
  if (header === undefined) throw new StoaError('invalid_request', 'The file is empty.');
  return { header, sha256: sha256 === '' ? hash.digest('hex') : sha256, broken: damageOf(trailer, sha256, counts) };
}

function damageOf(trailer: Trailer | undefined, sha256: string, counts: Readonly<Record<string, number>>): string | null {
  if (trailer === undefined) return 'its last line is missing: it was cut off';
  for (const [type, count] of Object.entries(trailer.counts ?? {})) {
    if ((counts[type] ?? 0) !== count) return `it holds ${counts[type] ?? 0} records of ${type}, but ${count} were exported`;
  }
  return trailer.sha256 === sha256 ? null : 'its lines are not those that were exported';
}

function headerOf(parsed: unknown): Header {
  const header = parsed as Partial<Header> | null;
  if (parsed instanceof StoaError || typeOf(parsed) !== 'stoa.export' || header?.format !== formatName) {
    throw new StoaError('invalid_request', 'Line 1: this is not an export of Stoa: its first line is no header.', { fix: 'Documents alone, in the seed\'s shape, are imported with "stoa data import".' });
  }
  if (typeof header.version !== 'number' || header.version > formatVersion) {
    throw new StoaError('newer_data', `The export has version ${String(header.version)}; this program knows version ${formatVersion}.`, { fix: 'Import it with the version of Stoa that wrote it, or a newer one.' });
  }
  return header as Header;
}

function checkedLine(number: number, sizeBytes: number, parsed: unknown): ReadLine {
  const bad = (reason: string): ReadLine => ({ number, sizeBytes, record: undefined, reason });
  if (parsed instanceof StoaError) return bad(parsed.message);
  const type = typeOf(parsed);
  if (type === undefined) return bad('it is no object with a type');
  const kind = kindsByType.get(type);
  if (kind === undefined) return bad(`the type "${type.slice(0, 60)}" is not known`);
  const result = kind.schema.safeParse(parsed);
  if (result.success) return { number, sizeBytes, record: { kind, value: result.data }, reason: null };
  return bad(fieldErrors(result.error, []).slice(0, 3).map(({ field, message }) => `${field}: ${message}`).join('; '));
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    return new StoaError('invalid_request', `it is not JSON: ${jsonFaultOf(error)}`);
  }
}

function typeOf(parsed: unknown): string | undefined {
  const { type } = (typeof parsed === 'object' && parsed !== null ? parsed : {}) as { type?: unknown };
  return typeof type === 'string' ? type : undefined;
}

/** Lines as bytes, their ends included: the hash is over exactly these. */
async function* linesOf(path: string): AsyncGenerator<{ number: number; bytes: Buffer }> {
  let rest: Buffer[] = [];
  let number = 0;
  // Opened first, so that a file that is not there is an error of ours.
  const handle = await openFile(path);
  for await (const chunk of createReadStream('', { fd: handle, highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      number += 1;
      yield { number, bytes: Buffer.concat([...rest, chunk.subarray(from, end + 1)]) };
      rest = [];
      from = end + 1;
    }
    if (from < chunk.length) rest.push(chunk.subarray(from));
  }
  if (rest.length > 0) yield { number: number + 1, bytes: Buffer.concat(rest) };
}

async function openFile(path: string): Promise<Awaited<ReturnType<typeof open>>> {
  try {
    return await open(path, 'r');
  } catch (error) {
    throw new StoaError('invalid_request', `${path} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}
