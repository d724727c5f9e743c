/** Tasks: what a claim costs however many wait, what creating costs, and claims over HTTP. */
import { anyTask } from '../src/workspaces/tasks/claim-filter.js';
import { join } from 'node:path';
import type { EngineName } from '../src/core/settings/store-config.js';
import type { Transaction } from '../src/homes/directory/kernel/transaction.js';
import { newId } from '../src/workspaces/ids.js';
import { type Bench, type Row, byTurns, isLarge, median, rateInFlight } from './frame.js';
import { claimsOverHttp } from './tasks-http.js';
import { type TaskSet, close, openFilled, owner } from './tasks-set.js';

const few = 1_000;
const many = 1_000_000;
const inFlight = 64;
const claimsEach = 128;
const turns = 21;
/**
 * Claims run colder than other loads: each waits for the disk, and a few hundred are not enough for the code
 * to be compiled.
 */
const claimTurns = { warmUp: 10, measured: 41 };

export const tasksBench: Bench = {
  name: 'tasks',
  run: async (directory) => [
    ...(isLarge ? await claimRows(directory, 'lmdb') : []),
    ...(isLarge ? await claimRows(directory, 'rocksdb') : []),
    await createRow(directory),
    ...(await claimsOverHttp(inFlight)),
  ],
};

/** By processor time, and by the clock, which also sees the disk and the neighbours on the machine. */
async function claimRows(directory: string, engine: EngineName): Promise<Row[]> {
  const small = await openFilled(join(directory, `${engine}-${few}`), engine, few);
  const large = await openFilled(join(directory, `${engine}-${many}`), engine, many);
  const measured: { ours: Cost; reference: Cost }[] = [];
  for (let turn = -claimTurns.warmUp; turn < claimTurns.measured; turn += 1) {
    const both = { reference: await claimCost(small), ours: await claimCost(large) };
    if (turn >= 0) measured.push(both);
  }
  await close(small);
  await close(large);
  return (['processor time', 'the clock'] as const).map((by) => ({
    what: `${engine}: claim, ${inFlight} in flight, 1M tasks waiting / 1k, by ${by}`,
    ours: median(measured.map(({ ours }) => ours[by])),
    reference: median(measured.map(({ reference }) => reference[by])),
    unit: 'µs',
    target: { atMost: 1.3 },
  }));
}

/** Microseconds a claim. */
type Cost = Record<'processor time' | 'the clock', number>;

/** What was claimed goes back before the next turn. */
async function claimCost({ kernel, port, write, projectId }: TaskSet): Promise<Cost> {
  const startedMs = performance.now();
  const startedCpu = process.cpuUsage();
  for (let done = 0; done < claimsEach; done += inFlight) {
    await Promise.all(
      Array.from({ length: inFlight }, () => write(port.claimTask(owner, projectId, owner, 3_600, anyTask))),
    );
  }
  const passedMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(startedCpu);
  await kernel.root.transact((tx) => port.tasks.releaseClaims(tx, owner, [owner]));
  return { 'the clock': (passedMs * 1_000) / claimsEach, 'processor time': (user + system) / claimsEach };
}

/** The reference writes as many bytes under as many keys, and announces one change. */
async function createRow(directory: string): Promise<Row> {
  const set = await openFilled(join(directory, 'create'), 'lmdb', few);
  const { kernel, port, write, sessionId } = set;
  const input = { command: 'go test ./...', priority: 0 };
  const shape = await writesOf(set, (tx) => port.tasks.create(tx, owner, sessionId, newId('task'), input));
  const rates = await byTurns(
    turns,
    () => rateInFlight(inFlight, () => write(port.createTask(owner, sessionId, newId('task'), input)), 200),
    () => rateInFlight(inFlight, () => kernel.root.transact((tx) => plainWrites(tx, shape)), 200),
  );
  await close(set);
  return {
    what: `create a task with all indexes, ${inFlight} in flight / kernel transactions of the same size`,
    ...rates,
    unit: 'tasks/s',
    target: { atLeast: 0.6 },
  };
}

interface PlainWrite {
  family: string;
  keyBytes: number;
  valueBytes: number;
}

/** What one operation writes, by sizes. */
async function writesOf({ kernel }: TaskSet, body: (tx: Transaction) => unknown): Promise<PlainWrite[]> {
  const writes: PlainWrite[] = [];
  await kernel.root.transact((tx) => {
    const noted = new Proxy(tx, {
      get: (target, name) => {
        if (name === 'put') {
          return (family: string, key: Buffer, value: Buffer) => {
            writes.push({ family, keyBytes: key.length, valueBytes: value.length });
            target.put(family, key, value);
          };
        }
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
    return body(noted);
  });
  return writes;
}

let plainNumber = 0;

function plainWrites(tx: Transaction, shape: readonly PlainWrite[]): void {
  for (const { family, keyBytes, valueBytes } of shape) {
    plainNumber += 1;
    tx.put(
      family,
      Buffer.from(`~${String(plainNumber).padStart(keyBytes - 1, '0')}`),
      Buffer.alloc(valueBytes, 120),
    );
  }
  tx.change({
    domain: 'workspaces',
    kind: 'task.created',
    id: `task_${plainNumber}`,
    user: owner,
    version: 1,
    facts: { project: 'p'.repeat(41), session: 's'.repeat(41) },
  });
}
