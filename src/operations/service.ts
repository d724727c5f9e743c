/** The operator's operations on an open home. The server and the command line both call this. */
import { isAbsolute } from 'node:path';
import type { CommitService } from '../commit/service.js';
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import { type Page, type PageRequest, pageLimit } from '../core/paging.js';
import type { Limits } from '../core/settings/limits.js';
import type { DataPort } from '../datastore/port.js';
import type { ChangesService } from '../feed/service.js';
import type { VectorsService } from '../find/vectors/service.js';
import type { MessagingPort } from '../messaging/port.js';
import type {
  BackupKind,
  BackupSummaries,
  BackupVerdict,
  CreatedBackup,
  Examination,
  ExaminedFinding,
  FamilySize,
  HomeStatus,
  InspectedEntry,
  OnProgress,
} from './model.js';
import type { Archive, OperationsPort } from './port.js';

/** Rows of a family that the status counts if the engine does not know their number. */
const statusEntriesMax = 10_000;

export interface OperationsOptions {
  port: OperationsPort;
  archive: Archive;
  changes: Pick<ChangesService, 'newest'>;
  commit: Pick<CommitService, 'outbox'>;
  data: { readonly port: Pick<DataPort, 'capabilities'> };
  messaging: { readonly port: Pick<MessagingPort, 'capabilities'> };
  vectors: Pick<VectorsService, 'status'>;
  limits: Limits;
  /** Reads the key ring for secrets. */
  readKey: () => Promise<Buffer>;
  /** False: a crash can lose acknowledged writes. */
  syncWrites: boolean;
  /** The domains in other databases, which are not in backups. */
  keptElsewhere: readonly string[];
  onError: (error: unknown, about: string) => void;
}

export interface BackupWish {
  kind: BackupKind;
  /** An absolute path; the default is the home's backup directory. */
  directory: string | undefined;
  withKey: boolean;
  onProgress: OnProgress | undefined;
}

export class OperationsService {
  readonly #options: OperationsOptions;
  readonly #port: OperationsPort;

  constructor(options: OperationsOptions) {
    this.#options = options;
    this.#port = options.port;
  }

  async status(): Promise<HomeStatus> {
    const { syncWrites, changes } = this.#options;
    const { storeId, engine, shards, writes, feedBytes, expiryBacklogMs } = this.#port.facts();
    const { sizeBytes, families } = await this.#port.measure(statusEntriesMax);
    return {
      store_id: storeId,
      engine,
      shards,
      sync_writes: syncWrites,
      writes,
      position: await changes.newest(),
      feed_bytes: feedBytes,
      expiry_backlog_ms: expiryBacklogMs,
      outbox: await this.#outbox(),
      capabilities: this.#capabilities(),
      embedding: await this.#options.vectors.status(),
      size_bytes: sizeBytes,
      families: Object.fromEntries(families),
      servers: await this.#port.servers(),
    };
  }

  #capabilities(): HomeStatus['capabilities'] {
    const { data, messaging } = this.#options;
    const { backend, atomicBatches, changes, listsLag } = data.port.capabilities;
    const { durable, about } = messaging.port.capabilities;
    return {
      documents: { backend, atomic_batches: atomicBatches, changes, lists_lag: listsLag },
      messages: { durable, about },
    };
  }

  async #outbox(): Promise<HomeStatus['outbox']> {
    try {
      const { waiting, oldestWaitingSeconds, undeliverable } = await this.#options.commit.outbox();
      return { waiting, oldest_waiting_seconds: oldestWaitingSeconds, undeliverable };
    } catch (error) {
      this.#options.onError(error, 'counting the outbox for the status');
      return null;
    }
  }

  /** Looks for damage. Every finding is counted, the first `doctorFindingsMax` are listed. */
  async examine(repair: boolean, onProgress?: OnProgress): Promise<Examination> {
    const findings: ExaminedFinding[] = [];
    let [found, repaired] = [0, 0];
    for await (const finding of this.#port.examine(repair, onProgress)) {
      found += 1;
      if (finding.repaired) repaired += 1;
      if (findings.length < this.#options.limits.doctorFindingsMax) findings.push(finding);
    }
    return { found, repaired, remaining: found - repaired, findings };
  }

  /** Every family by its name, with all rows counted. */
  async families(): Promise<(FamilySize & { family: string })[]> {
    const { families } = await this.#port.measure(Infinity);
    return Array.from(families, ([family, size]) => ({ family, ...size })).toSorted((a, b) =>
      a.family < b.family ? -1 : 1,
    );
  }

  /** Raw rows of a family, in key order. */
  async entries(
    family: string,
    { prefix, limit, cursor }: PageRequest & { prefix?: string | undefined },
  ): Promise<Page<InspectedEntry>> {
    return this.#port.entries(family, { prefix, limit: pageLimit(limit, this.#options.limits), cursor });
  }

  /** Before the first backup the home's backup directory does not exist: then the list is empty. */
  async backups(directory: string | undefined): Promise<BackupSummaries> {
    try {
      return await this.#options.archive.list(this.#backupDirectory(directory));
    } catch (error) {
      if (directory === undefined && error instanceof StoaError && error.code === 'not_found')
        return { items: [], unreadable: [] };
      throw error;
    }
  }

  /** Reads every byte of the backups in a directory. Before the first backup there is nothing to read. */
  async verifyBackups(
    directory: string | undefined,
    onProgress: OnProgress | undefined,
  ): Promise<BackupVerdict[]> {
    const { items, unreadable } = await this.backups(directory);
    return items.length + unreadable.length === 0
      ? []
      : this.#options.archive.verify(this.#backupDirectory(directory), onProgress);
  }

  /** Makes a backup while the home is in use, once for an Idempotency-Key. */
  async backup(
    caller: Caller,
    idempotency: Idempotency | null,
    { kind, directory, withKey, onProgress }: BackupWish,
  ): Promise<CreatedBackup> {
    const { readKey, keptElsewhere } = this.#options;
    const request = {
      directory: this.#backupDirectory(directory),
      kind,
      readKey: withKey ? readKey : undefined,
      onProgress,
    };
    return this.#port.once(caller, idempotency, async () => ({
      ...(await this.#port.backup(request)),
      not_included: [...keptElsewhere],
    }));
  }

  #backupDirectory(given: string | undefined): string {
    if (given === undefined) return this.#port.backupDirectory;
    if (isAbsolute(given)) return given;
    throw new StoaError('invalid_request', `The backup directory "${given}" is a relative path.`, {
      fix: 'Use an absolute path on the server, which begins with "/".',
    });
  }
}
