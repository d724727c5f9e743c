/** What a million agents cost, against ten thousand: the registry must not notice. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { registryFamilies } from '../src/homes/directory/registry/families.js';
import { DirectoryRegistry } from '../src/homes/directory/registry/registry.js';
import { directoryFamilies, directoryScatteredFamilies } from '../src/homes/directory/families.js';
import { operatorCaller } from '../src/core/caller.js';
import { DirectoryWriter } from '../src/homes/directory/writer.js';
import { userKey } from '../src/identity/user-key.js';
import { openKernel } from '../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../src/core/settings/limits.js';
import { makeAgentId } from '../src/registry/ids.js';
import { RegistryService } from '../src/registry/service.js';
import { type Bench, type Row, byTurns } from './frame.js';

const few = 10_000;
const many = 1_000_000;
const agentsPerUser = 100;
const turns = 9;
/**
 * A read takes microseconds, most of them waiting for memory that neighbours on the machine use too: many
 * short turns.
 */
const readTurns = 41;

export const registryBench: Bench = {
  name: 'registry',
  run: async (directory) => [
    ...(await engineRows(directory, 'lmdb', 1.6)),
    ...(await engineRows(directory, 'rocksdb', 1.3)),
  ],
};

async function engineRows(
  directory: string,
  engine: 'lmdb' | 'rocksdb',
  statusTarget: number,
): Promise<Row[]> {
  const large = await openFilled(join(directory, setName(engine, many)), engine, many);
  const small = await openFilled(join(directory, setName(engine, few)), engine, few);
  const rows: Row[] = [];
  const row = async (
    what: string,
    atMost: number,
    cost: (set: AgentSet) => Promise<number>,
    count = turns,
  ) => {
    const costs = await byTurns(
      count,
      () => cost(large),
      () => cost(small),
    );
    rows.push({ what: `${engine}: ${what}, 1M agents / 10k`, ...costs, unit: 'µs', target: { atMost } });
  };
  await row(
    'getAgent',
    1.3,
    (set) => processorCostOf(some(3_000, set.randomId), (id) => set.registry.getAgent(operatorCaller(), id)),
    readTurns,
  );
  await row('list page of 100', 1.3, (set) =>
    processorCostOf(some(60, set.randomUser), (user) => set.registry.listAgents(operatorCaller(user), {})),
  );
  await row('status change, one at a time', statusTarget, (set) =>
    costOf(some(100, set.randomId), (id) => changeStatus(set, id)),
  );
  await large.kernel.close();
  await small.kernel.close();
  return rows;
}

interface AgentSet {
  kernel: Kernel;
  registry: RegistryService;
  randomId: () => string;
  randomUser: () => string;
}

/** Chosen before the clock runs: making an id takes two hashes. */
function some<T>(count: number, choose: () => T): T[] {
  return Array.from({ length: count }, choose);
}

/** Microseconds a call, one call after the other. */
async function costOf<T>(chosen: readonly T[], work: (one: T) => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  for (const one of chosen) await work(one);
  return ((performance.now() - startedMs) * 1_000) / chosen.length;
}

/**
 * The same in processor time of the whole process: reads wait for nothing, and neighbours on the machine
 * count less.
 */
async function processorCostOf<T>(chosen: readonly T[], work: (one: T) => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  for (const one of chosen) await work(one);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / chosen.length;
}

async function changeStatus({ registry }: AgentSet, id: string): Promise<void> {
  const { status } = await registry.getAgent(operatorCaller(), id);
  await registry.updateAgentStatus(operatorCaller(), id, status === 'running' ? 'idle' : 'running');
}

async function openFilled(dataDir: string, engine: 'lmdb' | 'rocksdb', count: number): Promise<AgentSet> {
  // Timers that ring during a measurement would be measured too.
  const quiet = 365 * 24 * 3_600;
  const limits = limitsWith({
    agentsPerUserMax: agentsPerUser,
    feedBytesMax: 1 << 24,
    redoBytesMax: 1 << 24,
    idleAfterSeconds: quiet,
    hibernateAfterSeconds: quiet,
  });
  const kernel = await openKernel({
    dataDir,
    engine,
    families: directoryFamilies,
    scatteredFamilies: directoryScatteredFamilies,
    limits,
  });
  const port = new DirectoryRegistry(kernel);
  const mark = `${dataDir}.filled`;
  if (!existsSync(mark)) {
    await fill(kernel, port, count);
    await writeFile(mark, '');
  }
  readThrough(kernel);
  const registry = new RegistryService({ writer: new DirectoryWriter(kernel), port, limits });
  const user = () => Math.floor((Math.random() * count) / agentsPerUser);
  return {
    kernel,
    registry,
    randomId: () => agentIdOf(user(), Math.floor(Math.random() * agentsPerUser)),
    randomUser: () => userOf(user()),
  };
}

/**
 * Every row once, so that both sets are as in a server that has run for a while. The first touch of
 * a page costs a page fault, and a large set would pay it in most of the calls that are measured.
 */
function readThrough(kernel: Kernel): void {
  for (const family of Object.values(registryFamilies)) for (const _ of kernel.root.range(family, {}));
}

async function fill(kernel: Kernel, port: DirectoryRegistry, count: number): Promise<void> {
  const usersPerTransaction = 10;
  const users = count / agentsPerUser;
  for (let first = 0; first < users; first += usersPerTransaction) {
    await kernel.root.transact((tx) => {
      for (let user = first; user < first + usersPerTransaction; user += 1) {
        for (let number = 0; number < agentsPerUser; number += 1) {
          port.verbs.agents.create(tx, agentIdOf(user, number), {
            user: userOf(user),
            name: nameOf(number),
            spec: {},
            labels: {},
          });
        }
      }
    });
    if (first % 1_000 === 0) {
      await kernel.trim();
      process.stderr.write(`  ${first * agentsPerUser} of ${count} agents\r`);
    }
  }
}

/** Another layout of the rows is another set. */
const setName = (engine: string, count: number): string => `${engine}-${count}-agents-in-three-rows`;
const userOf = (number: number): string => `user-${number}`;
const nameOf = (number: number): string => `agent-${number}`;

/** The same id at every run, so that a data set can be used again. */
function agentIdOf(user: number, number: number): string {
  return makeAgentId(userKey(userOf(user)), nameOf(number), BigInt(number));
}
