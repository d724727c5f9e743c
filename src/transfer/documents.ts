/** Documents of exports and imports, on any backend of the data store. */
import type { ImportQuota } from '../datastore/transfer/import-quota.js';
import type { DocumentRecord } from '../datastore/model.js';
import { toSeedFields } from '../datastore/documents/seed-document.js';
import type { DataService } from '../datastore/service.js';
import { contentHash } from '../datastore/transfer/transfer.js';
import { StoaError, messageOf } from '../core/errors.js';
import { operatorCaller } from '../core/caller.js';
import type { DocumentLine } from './records/record-schemas.js';
import type { Conflict, OnConflict, Outcome } from './model.js';
import type { ExportScope, RecordPage, RecordStore } from './port.js';

export class DocumentRecords implements RecordStore<DocumentLine> {
  readonly #data: DataService;
  /** The quotas, counted when the file is checked and again when it is written. */
  readonly #judged: ImportQuota;
  readonly #written: ImportQuota;

  constructor(data: DataService) {
    this.#data = data;
    this.#judged = data.transfer.quota();
    this.#written = data.transfer.quota();
  }

  forImport(): DocumentRecords {
    return new DocumentRecords(this.#data);
  }

  async page({ user }: ExportScope, after: string | null, limit: number): Promise<RecordPage<DocumentLine>> {
    const { items, next_cursor } = await this.#data.transfer.exportPage(operatorCaller(user ?? undefined), {
      limit,
      cursor: after ?? undefined,
    });
    // The seed's fields hold the four members that the line's schema asks for.
    return {
      records: items.map(
        (record) => ({ type: 'data.document', ...toSeedFields(record) }) as unknown as DocumentLine,
      ),
      after: next_cursor,
    };
  }

  refusalOf(line: DocumentLine): string | null {
    try {
      this.#recordOf(line);
      return null;
    } catch (error) {
      return messageOf(error);
    }
  }

  async judge(line: DocumentLine): Promise<'new' | 'same' | Conflict> {
    const record = this.#recordOf(line);
    const verdict = await this.#compare(record);
    return verdict === 'new' ? ((await overQuota(this.#judged, record)) ?? 'new') : verdict;
  }

  async write(lines: readonly DocumentLine[], onConflict: OnConflict): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const taken: DocumentRecord[] = [];
    for (const line of lines) {
      const record = this.#recordOf(line);
      const verdict = await this.#compare(record);
      const isWanted =
        verdict === 'new' || (onConflict === 'replace' && verdict !== 'same' && verdict.kind === 'exists');
      const conflict = isWanted
        ? await overQuota(this.#written, record)
        : typeof verdict === 'string'
          ? null
          : verdict;
      if (conflict !== null && onConflict === 'fail') throw new StoaError('conflict', conflict.detail);
      if (isWanted && conflict === null) taken.push(record);
      outcomes.push(
        conflict !== null
          ? 'skipped'
          : verdict === 'same'
            ? 'same'
            : verdict === 'new'
              ? 'written'
              : 'replaced',
      );
    }
    if (taken.length > 0) await this.#data.transfer.write(operatorCaller(), taken);
    return outcomes;
  }

  #recordOf(line: DocumentLine): DocumentRecord {
    return this.#data.transfer.recordFor(operatorCaller(), line);
  }

  async #compare(record: DocumentRecord): Promise<'new' | 'same' | Conflict> {
    const stored = await this.#data.port.get(
      { user: record.userId, namespace: record.namespace },
      record.key,
    );
    if (stored === undefined) {
      const [held] = await this.#data.transfer.heldByOthers([record]);
      return held === undefined
        ? 'new'
        : {
            kind: 'name_taken',
            detail: `The id of the document "${record.key}" in "${record.namespace}" of "${record.userId}" belongs to another owner.`,
          };
    }
    if (contentHash(stored).equals(contentHash(record))) return 'same';
    return {
      kind: 'exists',
      detail: `The document "${record.key}" in "${record.namespace}" of "${record.userId}" exists with other content.`,
    };
  }
}

async function overQuota(quota: ImportQuota, record: DocumentRecord): Promise<Conflict | null> {
  try {
    await quota.add([record]);
    return null;
  } catch (error) {
    if (!(error instanceof StoaError) || error.code !== 'quota_exceeded') throw error;
    return { kind: 'quota', detail: error.message };
  }
}
