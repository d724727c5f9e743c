/**
 * Imports a file of documents into the data store: all lines are validated before the first document is
 * written.
 */
import { stat } from 'node:fs/promises';
import type { z } from 'zod';
import { documentId } from '../datastore/documents/document-id.js';
import type { DocumentRecord } from '../datastore/model.js';
import { isOversized } from '../datastore/transfer/transfer.js';
import type { DataService } from '../datastore/service.js';
import { StoaError, messageOf } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { OnProgress, ProgressPhase } from '../operations/model.js';
import { limitError } from '../core/settings/exceeds.js';
import { fileLines, parsedLine } from './file-lines.js';
import { KnownIds } from './import/known-ids.js';
import { LineNumbers } from './line-numbers.js';
import type { documentReportSchema } from './schemas.js';

export interface DocumentFileOptions {
  /** Only checks. */
  dryRun?: boolean | undefined;
  /** Skips invalid lines instead of refusing the file. */
  keepGoing?: boolean | undefined;
  onProgress?: OnProgress | undefined;
}

export type DocumentFileReport = z.output<typeof documentReportSchema>;

export async function importDocumentFile(
  data: DataService,
  caller: Caller,
  path: string,
  options: DocumentFileOptions = {},
): Promise<DocumentFileReport> {
  data.transfer.checkMayImport(caller);
  return new DocumentFile(data, caller, path, options).run();
}

interface Line {
  number: number;
  record: DocumentRecord;
  sizeBytes: number;
}

class DocumentFile {
  readonly #data: DataService;
  readonly #caller: Caller;
  readonly #path: string;
  readonly #options: DocumentFileOptions;
  readonly #report: DocumentFileReport;
  readonly #bad = new LineNumbers();
  readonly #seen = new KnownIds();
  #progress = { phase: 'checking' as ProgressPhase, done: 0, total: 0 };

  constructor(data: DataService, caller: Caller, path: string, options: DocumentFileOptions) {
    this.#data = data;
    this.#caller = caller;
    this.#path = path;
    this.#options = options;
    this.#report = {
      dry_run: options.dryRun === true,
      lines: 0,
      skipped: 0,
      imported: 0,
      bad: [],
      bad_total: 0,
      oversized: [],
      oversized_total: 0,
    };
  }

  async run(): Promise<DocumentFileReport> {
    await this.#begin('checking');
    const overQuota = await this.#check();
    this.#refuseBad();
    if (overQuota !== undefined) throw overQuota;
    if (this.#report.dry_run) return this.#report;
    await this.#begin('writing');
    let writing = Promise.resolve();
    try {
      for await (const batch of this.#batches()) {
        await writing;
        writing = this.#write(batch);
        // The next lines are read while this batch becomes durable. Its error is thrown by the next `await`.
        writing.catch(() => undefined);
      }
    } finally {
      await writing;
    }
    return this.#report;
  }

  async #write(batch: readonly Line[]): Promise<void> {
    await this.#data.transfer.write(
      this.#caller,
      batch.map(({ record }) => record),
    );
    this.#report.imported += batch.length;
    this.#advance(batch);
  }

  async #begin(phase: ProgressPhase): Promise<void> {
    this.#progress = { phase, done: 0, total: (await stat(this.#path)).size };
  }

  #advance(batch: readonly Line[]): void {
    // Each line ends with one byte more.
    for (const { sizeBytes } of batch) this.#progress.done += sizeBytes + 1;
    this.#options.onProgress?.(this.#progress);
  }

  /** Finds the invalid lines. Returns the error if the other documents would exceed a quota. */
  async #check(): Promise<StoaError | undefined> {
    const { limits, transfer } = this.#data;
    const quota = transfer.quota();
    let overQuota: StoaError | undefined;
    for await (const batch of this.#batches(true)) {
      for (const record of await transfer.heldByOthers(batch.map((line) => line.record))) {
        // The result is a part of the requested ids.
        const { number } = batch.find((line) => line.record === record) as Line;
        this.#addBad(number, 'its _id belongs to a document of another user or namespace');
      }
      for (const { number, record } of batch) {
        if (!isOversized(record, limits)) continue;
        this.#report.oversized_total += 1;
        if (this.#report.oversized.length < limits.importFindingsMax) this.#report.oversized.push(number);
      }
      const good = batch.filter(({ number }) => !this.#bad.has(number)).map(({ record }) => record);
      await quota.add(good).catch((error: unknown) => {
        if (!(error instanceof StoaError) || error.code !== 'quota_exceeded') throw error;
        overQuota ??= error;
      });
      this.#advance(batch);
    }
    return overQuota;
  }

  /** The valid lines, in batches that are written in one step. The first pass finds the invalid lines. */
  async *#batches(isFirstPass = false): AsyncGenerator<Line[]> {
    const { importStepRecordsMax, importStepBytesMax } = this.#data.limits;
    let batch: Line[] = [];
    let sizeBytes = 0;
    for await (const { number, bytes } of fileLines(this.#path, this.#data.limits)) {
      const record = this.#bad.has(number) ? undefined : this.#recordOf(number, bytes, isFirstPass);
      if (record === undefined) continue;
      if (
        batch.length === importStepRecordsMax ||
        (batch.length > 0 && sizeBytes + bytes.length > importStepBytesMax)
      ) {
        yield batch;
        [batch, sizeBytes] = [[], 0];
      }
      batch.push({ number, record, sizeBytes: bytes.length });
      sizeBytes += bytes.length;
    }
    if (batch.length > 0) yield batch;
  }

  /** Undefined for a line without a document, and for an invalid one. */
  #recordOf(number: number, bytes: Buffer, isFirstPass: boolean): DocumentRecord | undefined {
    const fields = isBlank(bytes) ? undefined : parsedLine(bytes, this.#data.limits);
    const { _id: id } = (fields ?? {}) as { _id?: unknown };
    if (fields === undefined || (typeof id === 'string' && id.startsWith('_design/'))) {
      if (isFirstPass) this.#report.skipped += 1;
      return undefined;
    }
    if (!isFirstPass) return this.#data.transfer.recordFor(this.#caller, fields);
    this.#report.lines += 1;
    this.#checkCount();
    try {
      if (fields instanceof Error) throw fields;
      const record = this.#data.transfer.recordFor(this.#caller, fields);
      this.#checkRepeat(record);
      return record;
    } catch (error) {
      this.#addBad(number, messageOf(error));
      return undefined;
    }
  }

  #checkCount(): void {
    const { limits } = this.#data;
    if (this.#report.lines <= limits.importRecordsMax) return;
    throw limitError('too_large', {
      subject: 'Nothing was written: the file',
      unit: 'lines with a document',
      limit: 'importRecordsMax',
      limits,
      advice: 'Split the file and import one part after the other',
    });
  }

  /**
   * Checks for repeated ids. On databases where the id is the key, documents of two owners can have the same
   * id.
   */
  #checkRepeat({ userId, namespace, key }: DocumentRecord): void {
    const id = this.#data.port.capabilities.sharedIds
      ? documentId(userId, namespace, key)
      : `${userId}\n${namespace}\n${key}`;
    if (!this.#seen.add('document', id))
      throw new StoaError('invalid_request', 'The document is repeated; an earlier line has it.');
  }

  #addBad(line: number, reason: string): void {
    this.#bad.add(line);
    this.#report.bad_total += 1;
    if (this.#report.bad.length < this.#data.limits.importFindingsMax)
      this.#report.bad.push({ line, reason });
  }

  #refuseBad(): void {
    const { bad, bad_total, lines } = this.#report;
    if (bad_total === 0 || this.#options.keepGoing === true) return;
    const first = Math.min(...bad.map(({ line }) => line));
    throw new StoaError(
      'invalid_request',
      `${bad_total} of ${lines} lines cannot be imported (the first is line ${first}); nothing was written.`,
      {
        fix: 'Correct the lines, or skip them with --keep-going.',
        details: { bad, bad_total, first },
      },
    );
  }
}

/** Only JSON's own whitespace. A loop, because `every` takes ten times as long on a line of many megabytes. */
function isBlank(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) return false;
  }
  return true;
}
