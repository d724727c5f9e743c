/** A store with something of every kind, exported with and without secrets, and targets for its import. */
import { kernelOf } from '../kernel-of.js';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { allChecks } from '../../src/homes/directory/doctor/doctor.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import type { Limits } from '../../src/core/settings/limits.js';
import { examineAll } from '../../src/homes/directory/kernel/inspect/doctor.js';
import type { EngineName } from '../../src/core/settings/store-config.js';
import { fill, linesOf } from './kit.js';

export async function expectHealthy(stoa: Stoa): Promise<void> {
  for await (const finding of examineAll(kernelOf(stoa).stores, allChecks(kernelOf(stoa)), {
    repair: false,
  }))
    throw new Error(`The doctor found: ${finding.family}: ${finding.problem}`);
}

export const run = (stoa: Stoa, path: string, options: Parameters<Stoa['transfer']['import']>[2] = {}) =>
  stoa.transfer.import(operatorCaller(), path, options);

export function useExportedStore() {
  let directory: string;
  let source: Stoa;
  let whole: string;
  let plain: string;
  const opened: Stoa[] = [];

  async function open(
    name: string,
    options: { engine?: EngineName; shards?: number; limits?: Partial<Limits> } = {},
  ): Promise<Stoa> {
    const stoa = await openStoa({ data: join(directory, name), sweepIntervalMs: 3_600_000, ...options });
    opened.push(stoa);
    return stoa;
  }

  async function save(lines: readonly string[], name = 'export.ndjson'): Promise<string> {
    const path = join(directory, name);
    await writeFile(path, lines.join(''));
    return path;
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-transfer-'));
    source = await open('source');
    await fill(source);
    whole = await save(await linesOf(source, { withSecrets: true }), 'whole.ndjson');
    plain = await save(await linesOf(source), 'plain.ndjson');
  });

  afterAll(async () => {
    for (const stoa of opened) await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  return {
    get source() {
      return source;
    },
    /** The path of an export of the source with secrets. */
    get whole() {
      return whole;
    },
    /** The path of an export of the source without secrets. */
    get plain() {
      return plain;
    },
    open,
    save,
  };
}
