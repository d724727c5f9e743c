/** Tasks: what a claim costs however many wait, what creating costs, and claims over HTTP. */
import { join } from 'node:path';
import type { EngineName } from '../src/kernel/engine.js';
import type { Transaction } from '../src/kernel/transaction.js';
import { newId } from '../src/workspaces/ids.js';
import { type Bench, type Row, byTurns, rateInFlight } from './frame.js';
import { claimsOverHttp } from './tasks-http.js';
import { type TaskSet, close, openFilled, owner } from './tasks-set.js';

const few = 1_000;
const many = 1_000_000;
const inFlight = 64;
const claimsEach = 128;
const turns = 21;

export const tasksBench: Bench = {
  name: 'tasks',
  run: async (directory) => [
    await claimRow(directory, 'lmdb'),
    await claimRow(directory, 'rocksdb'),
    await createRow(directory),
    ...(await claimsOverHttp(inFlight)),
  ],
};

async function claimRow(directory: string, engine: EngineName): Promise<Row> {
  const small = await openFilled(join(directory, `${engine}-${few}`), engine, few);
  const large = await openFilled(join(directory, `${engine}-${many}`), engine, many);
  const costs = await byTurns(turns, () => claimCost(large), () => claimCost(small));
  await close(small);
  await close(large);
  return { what: `${engine}: claim, ${inFlight} in flight, 1M tasks waiting / 1k`, ...costs, unit: 'µs', target: { atMost: 1.3 } };
}

/** Microseconds a claim; what was claimed goes back before the next turn. */
async function claimCost({ kernel, port, projectId }: TaskSet): Promise<number> {
  const startedMs = performance.now();
  for (let done = 0; done < claimsEach; done += inFlight) {
    await Promise.all(Array.from({ length: inFlight }, () => port.claimTask(owner, projectId, { holder: owner, leaseSeconds: 3_600, waitMs: 0 })));
  }
  const passedMs = performance.now() - startedMs;
  await kernel.root.transact((tx) => port.tasks.releaseClaims(tx, owner, [owner]));
  return (passedMs * 1_000) / claimsEach;
}

/** The reference writes as many bytes under as many keys, and announces one change. */
async function createRow(directory: string): Promise<Row> {
  const set = await openFilled(join(directory, 'create'), 'lmdb', few);
  const { kernel, port, sessionId } = set;
  const input = { command: 'go test ./...', priority: 0 };
  const shape = await writesOf(set, (tx) => port.tasks.create(tx, owner, sessionId, newId('task'), input));
  const rates = await byTurns(
    turns,
    () => rateInFlight(inFlight, () => port.createTask(owner, sessionId, newId('task'), input, null), 200),
    () => rateInFlight(inFlight, () => kernel.root.transact((tx) => plainWrites(tx, shape)), 200),
  );
  await close(set);
  return { what: `create a task with all indexes, ${inFlight} in flight / kernel transactions of the same size`, ...rates, unit: 'tasks/s', target: { atLeast: 0.6 } };
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
    tx.put(family, Buffer.from(`~${String(plainNumber).padStart(keyBytes - 1, '0')}`), Buffer.alloc(valueBytes, 120));
  }
  tx.change({ domain: 'workspaces', kind: 'task.created', id: `task_${plainNumber}`, user: owner, version: 1, facts: { project: 'p'.repeat(41), session: 's'.repeat(41) } });
}
