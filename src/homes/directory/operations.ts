/** Operations on a data directory for its operator. */
import { join, resolve } from 'node:path';
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import { decodeCursor, encodeCursor, invalidCursor } from '../../core/paging.js';
import type { Writer } from '../../core/write.js';
import type { ExaminedFinding, OnProgress } from '../../operations/model.js';
import { Paced } from '../../core/waiting/paced.js';
import type { Census } from '../../operations/census.js';
import type { OperationsPort } from '../../operations/port.js';
import { takeCensus } from './census.js';
import { allChecks } from './doctor/doctor.js';
import { hidesValues, decodeEntry } from './inspect.js';
import { backup } from './kernel/backup/backup.js';
import { summaryOf } from './kernel/backup/chain.js';
import { keyBytesMax } from './kernel/engine.js';
import { kernelFamilies } from './kernel/families.js';
import { examineAll } from './kernel/inspect/doctor.js';
import { countedStats, familyNamed, inspectFamily, knownStats } from './kernel/inspect/inspect.js';
import type { DirectoryFind } from './find/find.js';
import type { Kernel } from './kernel/kernel.js';
import { LongWork } from '../../operations/long-work.js';
import { step } from './step.js';

export class DirectoryOperations implements OperationsPort {
  readonly #kernel: Kernel;
  readonly #find: DirectoryFind;
  readonly #longWork: LongWork;
  readonly #census: Paced<Census>;

  constructor(kernel: Kernel, writer: Writer, find: DirectoryFind) {
    this.#kernel = kernel;
    this.#find = find;
    this.#census = new Paced(() => takeCensus(kernel));
    this.#longWork = new LongWork(writer, (result) => step<unknown>(kernel.root, () => result));
  }

  get backupDirectory(): string {
    return join(resolve(this.#kernel.dataDir), 'backups');
  }

  readonly facts: OperationsPort['facts'] = () => {
    const { dataDir, manifest, stores, writes } = this.#kernel;
    return {
      storeId: manifest.id,
      engine: manifest.engine,
      directory: manifest.engine === 'memory' ? null : dataDir,
      shards: stores.length,
      writes,
      sequence: stores.reduce((sum, store) => sum + store.sequence, 0),
      feedBytes: stores.reduce((sum, store) => sum + store.feedExtent().sizeBytes, 0),
      expiryBacklogMs: this.#kernel.expiryBacklogMs(),
      load: null,
    };
  };

  readonly readiness: OperationsPort['readiness'] = async () => ({
    writes: this.#kernel.writes,
    degraded: {},
  });

  readonly servers: OperationsPort['servers'] = async () => [];

  readonly check: OperationsPort['check'] = () => {
    for (const store of this.#kernel.stores) {
      store.get(kernelFamilies.meta, Buffer.from('health'));
      const refusal = store.stopped ?? store.full;
      if (refusal !== undefined) throw refusal;
    }
  };

  readonly measure: OperationsPort['measure'] = async (entriesMax) => {
    const { sizeBytes, families } = await countedStats(this.#kernel.stores, entriesMax);
    return {
      sizeBytes,
      families: new Map(
        Array.from(families, ([name, { entries, sizeBytes: size_bytes, estimated }]) => [
          name,
          { entries, size_bytes, estimated },
        ]),
      ),
    };
  };

  readonly census: OperationsPort['census'] = () => this.#census.read();

  async *examine(repair: boolean, onProgress?: OnProgress): AsyncGenerator<ExaminedFinding> {
    const checks = allChecks(this.#kernel);
    const { families } = await knownStats(this.#kernel.stores);
    const total = checks.reduce((sum, { family }) => sum + (families.get(family)?.entries ?? 0), 0);
    let done = 0;
    const onRows = (rows: number): void => {
      done += rows;
      onProgress?.({ phase: 'records', done: Math.min(done, total), total });
    };
    yield* examineAll(this.#kernel.stores, checks, {
      repair,
      onRows,
      ...(this.#kernel.stores.length > 1 && { betweenPairs: (take) => this.#kernel.betweenPairs(take) }),
    });
    // After the records, which it follows from.
    yield* this.#find.examine(repair, onProgress);
  }

  readonly entries: OperationsPort['entries'] = async (name, { prefix: hex = '', limit, cursor }) => {
    const { stores } = this.#kernel;
    const family = familyNamed(stores, name);
    const prefix = Buffer.from(hex, 'hex');
    const list = `inspect ${family} ${prefix.toString('hex')}`;
    // A cursor is the number of the shard and the last key of the page before.
    const after = decodeCursor(list, cursor);
    if (after !== null && after.length > 1 + keyBytesMax) throw invalidCursor();
    const { items, next } = await inspectFamily(stores, family, {
      prefix,
      limit,
      from: after === null ? undefined : { shard: after.readUInt8(0), after: after.subarray(1) },
      decode: decodeEntry,
      conceals: hidesValues,
    });
    return {
      items,
      next_cursor:
        next === undefined ? null : encodeCursor(list, Buffer.concat([Buffer.of(next.shard), next.after])),
    };
  };

  readonly backup: OperationsPort['backup'] = async (request) =>
    summaryOf(request.directory, await backup(this.#kernel, request));

  once<Result>(
    caller: Caller,
    idempotency: Idempotency | null,
    work: () => Promise<Result>,
  ): Promise<Result> {
    return this.#longWork.once(caller, idempotency, work);
  }

  readonly announce: OperationsPort['announce'] = async (url) => {
    await this.#kernel.lock?.update({ url });
  };
}
