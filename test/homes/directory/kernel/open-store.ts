/** A store on a real engine that can be made to fail, in a separate directory. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import { storeConfigDefaults } from '../../../../src/core/settings/store-config.js';
import { openEngine } from '../../../../src/homes/directory/kernel/engines/index.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { Store } from '../../../../src/homes/directory/kernel/store.js';
import type { StoreOptions } from '../../../../src/homes/directory/kernel/store-options.js';
import type { Change } from '../../../../src/core/change.js';
import type { Reader } from '../../../../src/homes/directory/kernel/transaction.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { FaultyEngine } from './faulty-engine.js';

export const families = ['test/items', 'test/others'];
export const [items, others] = families as [string, string];

export interface OpenStore {
  store: Store;
  engine: FaultyEngine;
  directory: string;
}

export interface OpenStoreOptions {
  engine?: EngineName;
  directory?: string;
  limits?: Partial<Limits>;
  clock?: () => number;
  onGroup?: StoreOptions['onGroup'];
}

export async function openStore(options: OpenStoreOptions = {}): Promise<OpenStore> {
  const directory = options.directory ?? (await temporaryDirectory());
  const names = [...Object.values(kernelFamilies), ...families];
  const engine = new FaultyEngine(
    await openEngine(options.engine ?? 'memory', { ...storeConfigDefaults, data_dir: directory }, names),
  );
  const store = new Store({
    engine,
    families,
    limits: limitsWith(options.limits),
    ...(options.clock && { clock: options.clock }),
    ...(options.onGroup && { onGroup: options.onGroup }),
  });
  // As after a full backup: what the log contains is part of what is tested.
  store.keepRedo();
  return { store, engine, directory };
}

const made: string[] = [];

export async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-store-'));
  made.push(directory);
  return directory;
}

/** For `afterAll`. */
export async function removeDirectories(): Promise<void> {
  for (const directory of made.splice(0)) await rm(directory, { recursive: true, force: true });
}

export function bytes(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

export function change(id: string, more: Partial<Change> = {}): Change {
  return { domain: 'data', kind: 'document.set', id, user: 'ann', version: 1, ...more };
}

export function put(store: Store, key: string, value = 'v'): Promise<void> {
  return store.transact((tx) => tx.put(items, bytes(key), bytes(value)));
}

export function text(reader: Reader, key: string, family = items): string | undefined {
  return reader.get(family, bytes(key))?.toString('latin1');
}

/** Waits for a condition instead of a time. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits some turns of the event loop, to show that something does not happen. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
