/** Opens a registry for a test: a kernel on an engine of choice, with a clock that the test moves. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { embeddedFamilies } from '../../src/homes/directory/families.js';
import { DirectoryRegistry } from '../../src/homes/directory/registry/registry.js';
import type { Caller } from '../../src/core/caller.js';
import { fullScopes, operatorCaller } from '../../src/core/caller.js';
import { DirectoryWriter } from '../../src/homes/directory/writer.js';
import type { EngineName } from '../../src/core/settings/store-config.js';
import { type Kernel, openKernel } from '../../src/homes/directory/kernel/kernel.js';
import type { Change } from '../../src/core/change.js';
import { type Limits, limitsWith } from '../../src/core/settings/limits.js';
import { RegistryService } from '../../src/registry/service.js';

/** 2026-01-15T10:30:00Z, the time of the vectors. */
export const startMs = 1_768_473_000_000;

export interface TestRegistry {
  kernel: Kernel;
  port: DirectoryRegistry;
  writer: DirectoryWriter;
  registry: RegistryService;
  clock: { nowMs: number };
  limits: Limits;
  dataDir: string;
  /** What the feed has announced, oldest first. */
  changes(): Change[];
  /** Moves the clock and does what is due by then. */
  pass(seconds: number): Promise<void>;
  /** Closes, lets time pass, opens again. */
  restart(downSeconds: number): Promise<void>;
  close(): Promise<void>;
}

export interface TestRegistryOptions {
  engine?: EngineName;
  shards?: number;
  limits?: Partial<Limits>;
}

export async function openRegistry({
  engine = 'memory',
  shards = 1,
  limits: given = {},
}: TestRegistryOptions = {}): Promise<TestRegistry> {
  const dataDir = await mkdtemp(join(tmpdir(), 'stoa-registry-'));
  const clock = { nowMs: startMs };
  const limits = limitsWith(given);
  const open = async () => {
    const kernel = await openKernel({
      dataDir,
      engine,
      shards,
      families: embeddedFamilies,
      limits,
      clock: () => clock.nowMs,
      onError: (error) => {
        throw error;
      },
    });
    const port = new DirectoryRegistry(kernel);
    const writer = new DirectoryWriter(kernel);
    return { kernel, port, writer, registry: new RegistryService({ writer, port, limits }) };
  };
  const opened: TestRegistry = {
    ...(await open()),
    clock,
    limits,
    dataDir,
    changes: () => opened.kernel.feed.read().commits.flatMap((commit) => commit.changes),
    pass: async (seconds) => {
      clock.nowMs += seconds * 1_000;
      await opened.kernel.sweep();
    },
    restart: async (downSeconds) => {
      await opened.kernel.close();
      clock.nowMs += downSeconds * 1_000;
      Object.assign(opened, await open());
    },
    close: async () => {
      await opened.kernel.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  return opened;
}

export function userCaller(user: string, given: Partial<Caller> = {}): Caller {
  return { ...operatorCaller(user), kind: 'user', scopes: fullScopes, ...given };
}

export const operator = operatorCaller();
