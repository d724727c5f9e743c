/** The records of the registry in one home or in two: read, judged and written as an import does. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type RegistryBench, linkIdentity } from '../../../../src/registry/conformance/bench.js';
import type { OnConflict, Outcome, TransferRecord } from '../../../../src/transfer/model.js';
import type { Coming, ExportScope, RecordStore } from '../../../../src/transfer/port.js';

export interface Home {
  bench: RegistryBench;
  stores: Map<string, RecordStore>;
}

export const everything: ExportScope = { user: null, withSecrets: false };
const alone: Coming = { references: false, newBefore: 0, agentsMax: undefined };
export const ada = operatorCaller('ada');
export const bob = operatorCaller('bob');

export function storeOf({ stores }: Home, type: string): RecordStore {
  const store = stores.get(type);
  if (store === undefined) throw new Error(`No store takes ${type}.`);
  return store;
}

/** Every record, in the order of the kinds. */
export async function recordsOf(home: Home, scope = everything): Promise<TransferRecord[]> {
  const records: TransferRecord[] = [];
  for (const store of home.stores.values()) {
    let after: string | null = null;
    do {
      const page = await store.page(scope, after, 2);
      records.push(...page.records);
      ({ after } = page);
    } while (after !== null);
  }
  return records;
}

export async function writeAll(
  home: Home,
  records: readonly TransferRecord[],
  onConflict: OnConflict = 'fail',
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [type, store] of home.stores) {
    const mine = records.filter((record) => record.type === type);
    if (mine.length > 0) outcomes.push(...(await store.write(mine, onConflict)));
  }
  return outcomes;
}

export function sorted<Item>(items: readonly Item[]): Item[] {
  return items.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

/** The answer of both homes to the same question. */
export async function both<Answer>(
  targets: readonly Home[],
  ask: (home: Home) => Promise<Answer>,
): Promise<Answer> {
  const [first, ...others] = await Promise.all(targets.map(ask));
  for (const other of others) expect(other).toEqual(first);
  // There is one for each home, and two homes.
  return first as Answer;
}

export const judge = (targets: readonly Home[], record: TransferRecord, coming: Partial<Coming> = {}) =>
  both(targets, (home) => storeOf(home, record.type).judge(record, { ...alone, ...coming }));

/** Users with and without a quota, agents with labels, leases and states, sessions open and closed, links. */
export async function fill({ bench }: Home): Promise<void> {
  const { registry } = bench;
  await registry.putUser(operatorCaller(), 'ada', { email: 'ada@example.org', agents_max: 3 });
  const scout = await registry.createAgent(ada, { name: 'scout', labels: { team: 'blue', 'a b': 'ü' } });
  await registry.updateAgent(ada, scout.agent_id, { status: 'running' });
  for (const holder of ['one', 'two']) {
    await registry.heartbeat(ada, scout.agent_id, { holder });
    await registry.releaseLease(ada, scout.agent_id, { holder });
  }
  await registry.heartbeat(ada, scout.agent_id, { holder: 'three' });
  await registry.openSession(ada, scout.agent_id);
  const second = await registry.openSession(ada, scout.agent_id);
  await registry.closeSession(ada, second.session_id);
  await registry.openSession(ada, scout.agent_id);
  const broken = await registry.createAgent(ada, { name: 'broken', spec: { cpu_millicores: 4_294_967_295 } });
  await registry.updateAgent(ada, broken.agent_id, { status: 'error', error_message: 'two\nlines' });
  const other = await registry.createAgent(bob, { name: 'other' });
  for (const [caller, agentId] of [
    [ada, scout.agent_id],
    [ada, scout.agent_id],
    [ada, broken.agent_id],
    [bob, other.agent_id],
  ] as const)
    await linkIdentity(bench, caller, agentId, randomUUID());
}
