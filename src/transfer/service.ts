/** Export and import of everything, for the operator. */
import { type Caller, requireOperator } from '../core/caller.js';
import type { Limits } from '../core/settings/limits.js';
import { type ExportOptions, type RecordStores, exportLines } from './export.js';
import { type ImportOptions, importFile } from './import/import.js';
import type { ImportReport } from './model.js';

export interface TransferServiceOptions {
  stores: RecordStores;
  storeId: string;
  limits: Limits;
  nowMs: () => number;
  /** Called before an export, to write data that is only in memory. */
  flush: () => Promise<void>;
}

export class TransferService {
  readonly #options: TransferServiceOptions;

  constructor(options: TransferServiceOptions) {
    this.#options = options;
  }

  /**
   * The lines of an export, each with its line end. A record that changes during the export has its old or
   * its new content.
   */
  async *export(caller: Caller, options: ExportOptions = {}): AsyncGenerator<string> {
    requireOperator(caller, 'export and import all data');
    const { stores, storeId, limits, nowMs, flush } = this.#options;
    await flush();
    yield* exportLines({ stores, storeId, nowMs: nowMs(), pageItems: limits.pageItemsDefault }, options);
  }

  async import(caller: Caller, path: string, options: ImportOptions = {}): Promise<ImportReport> {
    requireOperator(caller, 'export and import all data');
    return importFile({ stores: this.#options.stores, limits: this.#options.limits }, path, options);
  }
}
