/** `stoa data export` and `stoa data import`: documents in the seed's shape, a line each. */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { StoaError, messageOf } from '../../errors.js';
import { importedRecord, isOversized } from '../../datastore/transfer.js';
import { limitsWith } from '../../limits.js';
import type { Action } from '../definition.js';
import type { Output } from '../output.js';
import type { Page } from '../resource-options.js';

/** Lines that go out in one request. */
const batchDocumentsMax = 500;
const batchBytesMax = 4 * 1024 * 1024;
/** Bad lines that are described one by one. */
const complaintsMax = 20;

export const exportAll: Action = async ({ connect, output }, [file]) => {
  const connection = await connect();
  const stream = file === undefined || file === '-' ? process.stdout : createWriteStream(file);
  const progress = output.progress('Exporting');
  let exported = 0;
  let cursor: string | undefined;
  do {
    const page = await connection.call<Page<Record<string, unknown>>>('GET', '/v1/documents', { query: { limit: 1_000, cursor } });
    for (const document of page.items) {
      // Fields without a value are left out, as in the seed; a value of null is a value.
      const fields = Object.entries(document).filter(([name, value]) => value !== null || name === 'value');
      if (!stream.write(`${JSON.stringify(Object.fromEntries(fields))}\n`)) await once(stream, 'drain');
    }
    exported += page.items.length;
    progress.tell(() => `${exported} documents`);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  progress.end();
  if (stream !== process.stdout) {
    stream.end();
    await once(stream, 'finish');
    output.done({ exported, file }, `Exported ${exported} documents to ${file}.`);
  } else output.say(`Exported ${exported} documents.`);
};

export const importAll: Action = async ({ connect, output }, [file = '-'], options) => {
  const directory = file === '-' ? await mkdtemp(join(tmpdir(), 'stoa-import-')) : undefined;
  try {
    // Every line is checked before the first is written, so standard input has to be kept.
    const path = directory === undefined ? file : join(directory, 'documents.ndjson');
    if (directory !== undefined) await pipeline(process.stdin, createWriteStream(path, { mode: 0o600 }));
    const checked = await checkLines(path, output);
    const keepsGoing = options['keepGoing'] === true;
    if (checked.bad > 0 && !keepsGoing) {
      throw new StoaError('invalid_request', `${checked.bad} of ${checked.lines} lines cannot be imported (the first is line ${checked.firstBad}); nothing was written.`, {
        fix: 'Mend the lines, or leave them out with --keep-going.',
        details: { bad: checked.bad, first: checked.firstBad },
      });
    }
    const left = checked.bad > 0 ? `; ${checked.bad} bad lines were left out` : '';
    if (options['dryRun'] === true) {
      output.done({ ...checked, imported: 0 }, `${checked.lines - checked.bad} documents could be imported${left}.`);
    } else {
      const connection = await connect();
      const imported = await sendLines(path, checked.lines, output, (documents) => connection.call<{ imported: number }>('POST', '/v1/documents', { body: { documents } }));
      output.done({ ...checked, imported }, `Imported ${imported} documents${left}.`);
    }
    if (checked.bad > 0) process.exitCode = 1;
  } finally {
    if (directory !== undefined) await rm(directory, { recursive: true, force: true });
  }
};

interface Checked {
  lines: number;
  bad: number;
  firstBad: number | undefined;
  /** Empty lines and CouchDB's own design documents. */
  skipped: number;
}

async function checkLines(path: string, output: Output): Promise<Checked> {
  const limits = limitsWith();
  const checked: Checked = { lines: 0, bad: 0, firstBad: undefined, skipped: 0 };
  for await (const { number, text } of linesOf(path)) {
    const outcome = readLine(text);
    if (outcome === undefined) {
      checked.skipped += 1;
      continue;
    }
    checked.lines += 1;
    try {
      if (outcome instanceof Error) throw outcome;
      if (isOversized(importedRecord(outcome, limits), limits)) output.say(`Line ${number}: the value is over the limit of ${limits.valueBytesMax} bytes; it is imported all the same.`);
    } catch (error) {
      checked.bad += 1;
      checked.firstBad ??= number;
      if (checked.bad <= complaintsMax) output.say(`Line ${number}: ${messageOf(error)}`);
    }
  }
  return checked;
}

async function sendLines(path: string, total: number, output: Output, send: (documents: readonly unknown[]) => Promise<{ imported: number }>): Promise<number> {
  const limits = limitsWith();
  const progress = output.progress('Importing');
  let batch: unknown[] = [];
  let sizeBytes = 0;
  let imported = 0;
  const flush = async (): Promise<void> => {
    if (batch.length > 0) imported += (await send(batch)).imported;
    batch = [];
    sizeBytes = 0;
    progress.update({ done: imported, total });
  };
  try {
    for await (const { text } of linesOf(path)) {
      const fields = readLine(text);
      if (fields === undefined || fields instanceof Error || !isGood(fields, limits)) continue;
      if (batch.length === batchDocumentsMax || sizeBytes + text.length > batchBytesMax) await flush();
      // `_rev` and other fields of a database's own mean nothing here.
      batch.push(fields);
      sizeBytes += text.length;
    }
    await flush();
  } finally {
    progress.end();
  }
  return imported;
}

function isGood(fields: unknown, limits: ReturnType<typeof limitsWith>): boolean {
  try {
    importedRecord(fields, limits);
    return true;
  } catch {
    // The first pass has said what is wrong with it.
    return false;
  }
}

/** The object on a line, an error, or undefined for a line that holds no document. */
function readLine(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    const fields = JSON.parse(text) as { _id?: unknown } | null;
    return typeof fields?._id === 'string' && fields._id.startsWith('_design/') ? undefined : fields;
  } catch (error) {
    return new StoaError('invalid_request', `it is not JSON: ${messageOf(error)}.`, { cause: error });
  }
}

async function* linesOf(path: string): AsyncGenerator<{ number: number; text: string }> {
  const stream = createReadStream(path, 'utf8');
  try {
    await once(stream, 'open');
  } catch (error) {
    throw new StoaError('invalid_request', `${path} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
  let number = 0;
  for await (const text of createInterface({ input: stream, crlfDelay: Infinity })) {
    number += 1;
    yield { number, text };
  }
}
