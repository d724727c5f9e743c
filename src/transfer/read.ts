/** Reads an export line by line, validates each line, and compares the file with its last line. */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { StoaError } from '../core/errors.js';
import { fieldErrors } from '../core/validation/validate.js';
import type { Limits } from '../core/settings/limits.js';
import { fileLines, parsedLine } from './file-lines.js';
import { type RecordKind, recordKinds } from './records/kinds.js';
import { type Header, type Trailer, type TransferRecord, formatName, formatVersion } from './model.js';

export interface ReadLine {
  number: number;
  /** Bytes of the line with its end. */
  sizeBytes: number;
  /** Undefined for an invalid line; then `reason` says why. */
  record: { kind: RecordKind; value: TransferRecord } | undefined;
  reason: string | null;
}

const kindsByType = new Map(recordKinds.map((kind) => [kind.type, kind]));

/** What a file holds beside its records; known when every line has been read. */
export interface FileFacts {
  header: Header;
  sha256: string;
  /** Why the end is not correct: the file is incomplete, or was changed. */
  broken: string | null;
}

/** Reads every line and hands each record on; header and last line are checked here. */
export async function readExport(
  path: string,
  limits: Limits,
  onLine: (line: ReadLine) => void | Promise<void>,
): Promise<FileFacts> {
  const hash = createHash('sha256');
  const counts: Record<string, number> = {};
  let header: Header | undefined;
  let trailer: Trailer | undefined;
  let sha256 = '';
  for await (const { number, bytes } of fileLines(path, limits)) {
    const parsed = parsedLine(bytes, limits);
    if (header === undefined) {
      header = headerOf(parsed);
    } else if (trailer !== undefined) {
      throw new StoaError(
        'invalid_request',
        `Line ${number}: the file continues after the last line of the export.`,
        { fix: 'Import one export at a time, or export again.' },
      );
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
  return {
    header,
    sha256: sha256 === '' ? hash.digest('hex') : sha256,
    broken: damageOf(trailer, sha256, counts),
  };
}

function damageOf(
  trailer: Trailer | undefined,
  sha256: string,
  counts: Readonly<Record<string, number>>,
): string | null {
  if (trailer === undefined) return 'its last line is missing';
  for (const [type, count] of Object.entries(trailer.counts ?? {})) {
    if ((counts[type] ?? 0) !== count)
      return `it has ${counts[type] ?? 0} records of ${type}, but ${count} were exported`;
  }
  return trailer.sha256 === sha256 ? null : 'its lines are not the exported ones';
}

function headerOf(parsed: unknown): Header {
  const header = parsed as Partial<Header> | null;
  if (parsed instanceof StoaError || typeOf(parsed) !== 'stoa.export' || header?.format !== formatName) {
    throw new StoaError('invalid_request', 'Line 1: the first line is not the header of an export of Stoa.', {
      fix: 'Import documents in the seed\'s format with "stoa import --documents".',
    });
  }
  if (typeof header.version !== 'number' || header.version > formatVersion) {
    throw new StoaError(
      'newer_data',
      `The export has version ${String(header.version)}; this version of Stoa reads version ${formatVersion}.`,
      { fix: 'Import it with the version of Stoa that wrote it, or a newer one.' },
    );
  }
  return header as Header;
}

function checkedLine(number: number, sizeBytes: number, parsed: unknown): ReadLine {
  const bad = (reason: string): ReadLine => ({ number, sizeBytes, record: undefined, reason });
  if (parsed instanceof StoaError) return bad(parsed.message);
  const type = typeOf(parsed);
  if (type === undefined) return bad('the line is not an object with a type');
  const kind = kindsByType.get(type);
  if (kind === undefined) return bad(`the type "${type.slice(0, 60)}" is unknown`);
  const result = checkedShape(kind, parsed);
  if (typeof result === 'string') return bad(result);
  if (result.success) return { number, sizeBytes, record: { kind, value: result.data }, reason: null };
  return bad(
    fieldErrors(result.error, [])
      .slice(0, 3)
      .map(({ field, message }) => `${field}: ${message}`)
      .join('; '),
  );
}

/**
 * Validates a value with its schema. A schema recurses, so a value that is nested too deeply for it is
 * invalid.
 */
function checkedShape(
  { schema }: RecordKind,
  parsed: unknown,
): z.ZodSafeParseResult<TransferRecord> | string {
  try {
    return schema.safeParse(parsed, { reportInput: true });
  } catch (error) {
    if (error instanceof RangeError) return 'the line is nested too deeply';
    throw error;
  }
}

function typeOf(parsed: unknown): string | undefined {
  const { type } = (typeof parsed === 'object' && parsed !== null ? parsed : {}) as { type?: unknown };
  return typeof type === 'string' ? type : undefined;
}
