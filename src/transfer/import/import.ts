/**
 * An import: all lines are read and checked before the first record is written, then written in limited
 * steps.
 */
import { stat } from 'node:fs/promises';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import type { RecordStores } from '../export.js';
import { mapIds } from './id-map.js';
import { KnownIds } from './known-ids.js';
import type { MapId, RecordKind } from '../records/kinds.js';
import type { UserLine } from '../records/record-schemas.js';
import type { OnProgress, ProgressPhase } from '../../operations/model.js';
import type { ImportReport, LineConflict, OnConflict, TransferRecord } from '../model.js';
import type { RecordStore } from '../port.js';
import { type FileFacts, type ReadLine, readExport } from '../read.js';
import { limitError } from '../../core/settings/exceeds.js';

export interface ImportOptions {
  dryRun?: boolean | undefined;
  ids?: 'keep' | 'map' | undefined;
  onConflict?: OnConflict | undefined;
  /** Skips invalid lines and accepts an incomplete file, instead of refusing the file. */
  keepGoing?: boolean | undefined;
  onProgress?: OnProgress | undefined;
}

export interface ImportContext {
  stores: RecordStores;
  limits: Limits;
}

export async function importFile(
  context: ImportContext,
  path: string,
  options: ImportOptions,
): Promise<ImportReport> {
  return new Import(context, path, options).run();
}

/** How often a phase reads the file: for validation and for conflicts, then to write. */
const passes = { checking: 2, writing: 1 };

class Import {
  readonly #stores: RecordStores;
  readonly #limits: Limits;
  readonly #path: string;
  readonly #options: ImportOptions;
  readonly #defined = new KnownIds();
  /** Lines that are invalid although they match their schema: later passes skip them. */
  readonly #left = new Set<number>();
  /** New records by type and user. */
  readonly #newOnes = new Map<string, number>();
  /** The quotas that the file itself brings. */
  readonly #agentsMax = new Map<string, number | null>();
  readonly #report: ImportReport;
  #map: MapId = (_type, id) => id;
  #progress = { phase: 'checking' as ProgressPhase, done: 0, total: 0 };

  constructor({ stores, limits }: ImportContext, path: string, options: ImportOptions) {
    this.#stores = new Map(Array.from(stores, ([type, store]) => [type, store.forImport?.() ?? store]));
    this.#limits = limits;
    this.#path = path;
    this.#options = options;
    this.#report = {
      dry_run: options.dryRun === true,
      records: 0,
      written: 0,
      replaced: 0,
      same: 0,
      skipped: 0,
      conflicts: [],
      conflicts_total: 0,
      bad: [],
      bad_total: 0,
    };
  }

  async run(): Promise<ImportReport> {
    await this.#begin('checking');
    const facts = await this.#read((line) => this.#judgeLine(line));
    this.#refuseBad(facts);
    if (this.#options.ids === 'map')
      this.#map = mapIds(facts.sha256, (type, id) => this.#defined.has(type, id));
    await this.#read((line) => this.#judgeConflict(line));
    if (this.#options.dryRun === true) return this.#report;
    if (this.#report.conflicts_total > 0 && this.#onConflict === 'fail') throw this.#refusal();
    await this.#begin('writing');
    await this.#write();
    return this.#report;
  }

  async #begin(phase: keyof typeof passes): Promise<void> {
    this.#progress = { phase, done: 0, total: passes[phase] * (await sizeOf(this.#path)) };
  }

  /** Every kind has one. */
  #storeOf({ type }: RecordKind): RecordStore {
    return this.#stores.get(type) as RecordStore;
  }

  get #onConflict(): OnConflict {
    return this.#options.onConflict ?? 'fail';
  }

  async #read(onLine: (line: ReadLine) => void | Promise<void>): Promise<FileFacts> {
    return readExport(this.#path, this.#limits, async (line) => {
      await onLine(line);
      this.#progress.done += line.sizeBytes;
      this.#options.onProgress?.(this.#progress);
    });
  }

  /** The first pass: validates each line, and finds repeated ids. */
  #judgeLine({ number, record, reason }: ReadLine): void {
    // The first line is the header.
    if (number > this.#limits.importRecordsMax + 1)
      throw limitError('too_large', {
        subject: 'Nothing was written: the file',
        unit: 'records',
        limit: 'importRecordsMax',
        limits: this.#limits,
        advice: 'Export and import one user or one domain at a time',
      });
    if (record === undefined) {
      this.#addBad(number, reason ?? '');
      return;
    }
    const { kind, value } = record;
    const refusal = this.#storeOf(kind).refusalOf?.(value) ?? null;
    if (refusal !== null) {
      this.#left.add(number);
      this.#addBad(number, refusal);
    } else if (!this.#defined.add(kind.type, kind.idOf(value))) {
      this.#left.add(number);
      this.#addBad(number, `${kind.type} ${kind.idOf(value)} is repeated`);
    } else {
      // The schema has checked that a user has a quota or null.
      if (kind.type === 'registry.user')
        this.#agentsMax.set(kind.idOf(value), (value as UserLine).agents_max);
      this.#report.records += 1;
    }
  }

  /** The second pass, after all ids of the file are known: finds the conflicts of each record. */
  async #judgeConflict({ number, record }: ReadLine): Promise<void> {
    if (record === undefined || this.#left.has(number)) return;
    const { kind, value } = record;
    const references = kind.referencesOf(value).every(({ type, id }) => this.#defined.has(type, id));
    const mapped = kind.mapped(value, this.#map);
    const user = userOf(mapped);
    const group = `${kind.type} ${user}`;
    const newBefore = this.#newOnes.get(group) ?? 0;
    const store = this.#storeOf(kind);
    const verdict = await store.judge(mapped, {
      references,
      newBefore,
      agentsMax: user === null ? undefined : this.#agentsMax.get(user),
    });
    if (verdict === 'new') this.#newOnes.set(group, newBefore + Number(store.isCounted?.(mapped) !== false));
    else if (verdict !== 'same')
      this.#addConflict({ line: number, type: kind.type, id: kind.idOf(mapped), ...verdict });
  }

  async #write(): Promise<void> {
    let batch: { kind: RecordKind; records: TransferRecord[]; sizeBytes: number } | undefined;
    const flush = async (): Promise<void> => {
      if (batch === undefined) return;
      const outcomes = await this.#storeOf(batch.kind).write(batch.records, this.#onConflict);
      for (const outcome of outcomes) this.#report[outcome] += 1;
      batch = undefined;
    };
    await this.#read(async ({ number, record, sizeBytes }) => {
      if (record === undefined || this.#left.has(number)) return;
      const { kind, value } = record;
      const isFull =
        batch !== undefined &&
        (batch.records.length >= this.#limits.importStepRecordsMax ||
          batch.sizeBytes + sizeBytes > this.#limits.importStepBytesMax);
      if (batch !== undefined && (batch.kind !== kind || isFull)) await flush();
      batch ??= { kind, records: [], sizeBytes: 0 };
      batch.records.push(kind.mapped(value, this.#map));
      batch.sizeBytes += sizeBytes;
    });
    await flush();
  }

  #refuseBad({ broken }: FileFacts): void {
    if (this.#options.keepGoing === true) {
      if (broken !== null) this.#addBad(0, `The file is incomplete or changed: ${broken}.`);
      return;
    }
    const { bad, bad_total } = this.#report;
    const [first] = bad;
    if (first !== undefined) {
      throw new StoaError(
        'invalid_request',
        `${bad_total} lines cannot be imported; nothing was written. Line ${first.line}: ${first.reason}`,
        {
          fix: 'Correct the lines, or skip them with --keep-going.',
          details: { bad, bad_total },
        },
      );
    }
    if (broken !== null)
      throw new StoaError(
        'invalid_request',
        `The file is incomplete or changed: ${broken}. Nothing was written.`,
        { fix: 'Export again, or import the incomplete file with --keep-going.' },
      );
  }

  #refusal(): StoaError {
    const { conflicts, conflicts_total } = this.#report;
    const first = conflicts[0] as LineConflict;
    return new StoaError(
      'conflict',
      `${conflicts_total} records conflict with stored records; nothing was written. Line ${first.line}: ${first.detail}`,
      {
        fix: 'List all conflicts with --dry-run; then use --on-conflict skip or replace, or --ids map.',
        details: { conflicts, conflicts_total },
      },
    );
  }

  #addBad(line: number, reason: string): void {
    this.#report.bad_total += 1;
    if (this.#report.bad.length < this.#limits.importFindingsMax) this.#report.bad.push({ line, reason });
  }

  #addConflict(conflict: LineConflict): void {
    this.#report.conflicts_total += 1;
    if (this.#report.conflicts.length < this.#limits.importFindingsMax) this.#report.conflicts.push(conflict);
  }
}

function userOf(record: TransferRecord): string | null {
  return 'user' in record && typeof record.user === 'string' ? record.user : null;
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    throw new StoaError('invalid_request', `${path} cannot be read.`, { cause: error });
  }
}
