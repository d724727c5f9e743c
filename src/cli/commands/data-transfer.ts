/** `stoa data export` and `stoa data import`: documents in the seed's shape, a line each. */
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type ErrorCode, StoaError, messageOf } from '../../errors.js';
import { importedRecord, isOversized } from '../../datastore/transfer.js';
import { limitsWith } from '../../limits.js';
import { fileLines, parsedLine } from '../../transfer/file-lines.js';
import type { Action } from '../definition.js';
import type { Output } from '../output.js';
import type { Page } from '../resource-options.js';
import { writeLines } from '../write-lines.js';

/** Lines that go out in one request. */
const batchDocumentsMax = 500;
const batchBytesMax = 4 * 1024 * 1024;
/** Bad lines that are described one by one. */
const complaintsMax = 20;

export const exportAll: Action = async ({ connect, output }, [file = '-']) => {
  const connection = await connect();
  const progress = output.progress('Exporting');
  let exported = 0;
  async function* lines(): AsyncGenerator<string> {
    let cursor: string | undefined;
    do {
      const page = await connection.call<Page<Record<string, unknown>>>('GET', '/v1/documents', { query: { limit: 1_000, cursor } });
      for (const document of page.items) {
        // Fields without a value are left out, as in the seed; a value of null is a value.
        const fields = Object.entries(document).filter(([name, value]) => value !== null || name === 'value');
        yield `${JSON.stringify(Object.fromEntries(fields))}\n`;
      }
      exported += page.items.length;
      progress.tell(() => `${exported} documents`);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
  try {
    await writeLines(file, lines());
  } finally {
    progress.end();
  }
  if (file === '-') output.say(`Exported ${exported} documents.`);
  else output.done({ exported, file }, `Exported ${exported} documents to ${file}.`);
};

export const importAll: Action = async ({ connect, output }, [file = '-'], options) => {
  const directory = file === '-' ? await mkdtemp(join(tmpdir(), 'stoa-import-')) : undefined;
  try {
    // Every line is checked before the first is written, so standard input has to be kept.
    const path = directory === undefined ? file : join(directory, 'documents.ndjson');
    if (directory !== undefined) await pipeline(process.stdin, createWriteStream(path, { mode: 0o600 }));
    const lines = new CheckedLines(output, options['keepGoing'] === true);
    await checkHere(path, lines, output);
    lines.refuseBad();
    const connection = await connect();
    const send = (documents: readonly unknown[], dryRun: boolean) => connection.call<{ imported: number }>('POST', '/v1/documents', { body: { documents, ...(dryRun && { dry_run: true }) } });
    await checkThere(path, lines, output, (documents) => send(documents, true));
    lines.refuseBad();
    const left = lines.bad.size > 0 ? `; ${lines.bad.size} bad lines were left out` : '';
    if (options['dryRun'] === true) {
      output.done({ ...lines.summary(), imported: 0 }, `${lines.count - lines.bad.size} documents could be imported${left}.`);
    } else {
      const imported = await sendLines(path, lines, output, (documents) => send(documents, false));
      output.done({ ...lines.summary(), imported }, `Imported ${imported} documents${left}.`);
    }
    if (lines.bad.size > 0) process.exitCode = 1;
  } finally {
    if (directory !== undefined) await rm(directory, { recursive: true, force: true });
  }
};

/** What is known of the lines of a file: how many there are, and which cannot be imported. */
class CheckedLines {
  count = 0;
  /** Empty lines and CouchDB's own design documents. */
  skipped = 0;
  /** The numbers of lines that cannot be imported. */
  readonly bad = new Set<number>();
  #firstBad: number | undefined;
  readonly #output: Output;
  readonly #keepsGoing: boolean;

  constructor(output: Output, keepsGoing: boolean) {
    this.#output = output;
    this.#keepsGoing = keepsGoing;
  }

  complain(number: number, error: unknown): void {
    this.bad.add(number);
    this.#firstBad = Math.min(this.#firstBad ?? number, number);
    if (this.bad.size <= complaintsMax) this.#output.say(`Line ${number}: ${messageOf(error)}`);
  }

  refuseBad(): void {
    if (this.bad.size === 0 || this.#keepsGoing) return;
    const { bad, firstBad } = this.summary();
    throw new StoaError('invalid_request', `${bad} of ${this.count} lines cannot be imported (the first is line ${firstBad}); nothing was written.`, {
      fix: 'Mend the lines, or leave them out with --keep-going.',
      details: { bad, first: firstBad },
    });
  }

  summary(): { lines: number; bad: number; firstBad: number | undefined; skipped: number } {
    return { lines: this.count, bad: this.bad.size, firstBad: this.#firstBad, skipped: this.skipped };
  }
}

/** What can be told without the server: each line by itself. */
async function checkHere(path: string, lines: CheckedLines, output: Output): Promise<void> {
  const limits = limitsWith();
  for await (const { number, bytes } of fileLines(path)) {
    const outcome = readLine(bytes);
    if (outcome === undefined) {
      lines.skipped += 1;
      continue;
    }
    lines.count += 1;
    try {
      if (outcome instanceof Error) throw outcome;
      if (isOversized(importedRecord(outcome, limits), limits)) output.say(`Line ${number}: the value is over the limit of ${limits.valueBytesMax} bytes; it is imported all the same.`);
    } catch (error) {
      lines.complain(number, error);
    }
  }
}

type SendDocuments = (documents: readonly unknown[]) => Promise<{ imported: number }>;

/** The server has limits, a backend and rights of its own, and its refusal of a later line must not find the earlier ones written. */
async function checkThere(path: string, lines: CheckedLines, output: Output, check: SendDocuments): Promise<void> {
  const progress = output.progress('Checking');
  let checked = 0;
  try {
    for await (const batch of batchesOf(path, lines)) {
      const refusal = await refusalOf(check(batch.map(({ fields }) => fields)));
      if (refusal !== undefined && batch.length === 1) lines.complain((batch[0] as GoodLine).number, refusal);
      else if (refusal !== undefined) {
        for (const { number, fields } of batch) {
          const own = await refusalOf(check([fields]));
          if (own !== undefined) lines.complain(number, own);
        }
      }
      checked += batch.length;
      progress.update({ done: checked, total: lines.count });
    }
  } finally {
    progress.end();
  }
}

/** What the documents themselves are refused for; a server that cannot answer now is thrown. */
async function refusalOf(sent: Promise<unknown>): Promise<StoaError | undefined> {
  try {
    await sent;
    return undefined;
  } catch (error) {
    if (error instanceof StoaError && refusals.has(error.code)) return error;
    throw error;
  }
}

const refusals: ReadonlySet<string> = new Set(['invalid_request', 'too_large', 'forbidden'] satisfies ErrorCode[]);

async function sendLines(path: string, lines: CheckedLines, output: Output, send: SendDocuments): Promise<number> {
  const progress = output.progress('Importing');
  let imported = 0;
  try {
    for await (const batch of batchesOf(path, lines)) {
      imported += (await send(batch.map(({ fields }) => fields))).imported;
      progress.update({ done: imported, total: lines.count - lines.bad.size });
    }
  } finally {
    progress.end();
  }
  return imported;
}

interface GoodLine {
  number: number;
  /** `_rev` and other fields of a database's own mean nothing to the server. */
  fields: unknown;
}

/** The good lines, as many at a time as go in one request. */
async function* batchesOf(path: string, lines: CheckedLines): AsyncGenerator<GoodLine[]> {
  let batch: GoodLine[] = [];
  let sizeBytes = 0;
  for await (const { number, bytes } of fileLines(path)) {
    const fields = lines.bad.has(number) ? undefined : readLine(bytes);
    if (fields === undefined) continue;
    if (batch.length === batchDocumentsMax || (batch.length > 0 && sizeBytes + bytes.length > batchBytesMax)) {
      yield batch;
      [batch, sizeBytes] = [[], 0];
    }
    batch.push({ number, fields });
    sizeBytes += bytes.length;
  }
  if (batch.length > 0) yield batch;
}

/** The object on a line, an error, or undefined for a line that holds no document. */
function readLine(bytes: Buffer): unknown {
  if (bytes.every((byte) => whitespace.has(byte))) return undefined;
  const fields = parsedLine(bytes);
  const { _id: id } = (fields ?? {}) as { _id?: unknown };
  return typeof id === 'string' && id.startsWith('_design/') ? undefined : fields;
}

/** JSON's own. */
const whitespace: ReadonlySet<number> = new Set(Buffer.from(' \t\r\n'));
