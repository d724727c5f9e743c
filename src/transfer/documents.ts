/** Documents as exports have them, on whatever backend the data store is. */
import type { DataService } from '../datastore/service.js';
import { toSeedFields } from '../datastore/seed-document.js';
import { contentHash, importedRecord } from '../datastore/transfer.js';
import { StoaError } from '../errors.js';
import { operatorCaller } from '../identity/caller.js';
import type { Limits } from '../limits.js';
import type { DocumentLine } from './kinds.js';
import type { Conflict, OnConflict, Outcome } from './model.js';
import type { ExportScope, RecordPage, RecordStore } from './port.js';

export class DocumentRecords implements RecordStore<DocumentLine> {
  readonly #data: DataService;
  readonly #limits: Limits;

  constructor(data: DataService, limits: Limits) {
    this.#data = data;
    this.#limits = limits;
  }

  async page({ user }: ExportScope, after: string | null, limit: number): Promise<RecordPage<DocumentLine>> {
    const { items, next_cursor } = await this.#data.transfer.exportPage(operatorCaller(user ?? undefined), { limit, cursor: after ?? undefined });
    // The seed's fields hold the four members that the line's schema asks for.
    return { records: items.map((record) => ({ type: 'data.document', ...toSeedFields(record) }) as unknown as DocumentLine), after: next_cursor };
  }

  async judge(line: DocumentLine): Promise<'new' | 'same' | Conflict> {
    const record = importedRecord(line, this.#limits);
    const stored = await this.#data.port.get({ user: record.userId, namespace: record.namespace }, record.key);
    if (stored === undefined) return 'new';
    if (contentHash(stored).equals(contentHash(record))) return 'same';
    return { kind: 'exists', detail: `There is another document "${record.key}" in "${record.namespace}" of "${record.userId}".` };
  }

  async write(lines: readonly DocumentLine[], onConflict: OnConflict): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const taken: DocumentLine[] = [];
    for (const line of lines) {
      const verdict = await this.judge(line);
      if (verdict !== 'new' && verdict !== 'same' && onConflict === 'fail') throw new StoaError('conflict', verdict.detail);
      const outcome = verdict === 'same' ? 'same' : verdict === 'new' ? 'written' : onConflict === 'skip' ? 'skipped' : 'replaced';
      if (outcome === 'written' || outcome === 'replaced') taken.push(line);
      outcomes.push(outcome);
    }
    if (taken.length > 0) await this.#data.transfer.import(operatorCaller(), taken);
    return outcomes;
  }
}
