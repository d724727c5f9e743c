/** Counts the records of a data directory, page by page while other work continues. */
import { extendedByOutages } from '../../core/outages.js';
import { Slices } from '../../core/waiting/yielding.js';
import type { Census } from '../../operations/census.js';
import type { Room } from '../../messaging/model.js';
import { type AgentState, agentStateOf } from '../../registry/model.js';
import type { TaskStatus } from '../../workspaces/model.js';
import { dataFamilies, decodeUsage } from './datastore/rows.js';
import { prefixRange } from './kernel/engine.js';
import type { Kernel } from './kernel/kernel.js';
import { lockFamilies } from './locks/rows.js';
import { families as messagingFamilies } from './messaging/rows.js';
import { registryFamilies } from './registry/families.js';
import { buckets } from './workspaces/keys.js';

/** Rows of one read. Reads must not stay open while others write. */
const rowsPerPage = 500;
/** Followed by the owner, the status and the id; none of the three contains a colon. */
const tasksByOwner = prefixRange(Buffer.from('idx:task:owner:'));

/** The common fields of the leases of agents, tasks and locks. */
interface StoredLease {
  holder: string | null;
  renewedAtMs: number;
  expiresAtMs: number;
}

export async function takeCensus(kernel: Kernel): Promise<Census> {
  const census = {
    documents: 0,
    agents: new Tally<AgentState>(),
    tasks: new Tally<TaskStatus>(),
    messages: 0,
    leases: 0,
  };
  for await (const { value } of rowsOf(kernel, dataFamilies.usage))
    census.documents += decodeUsage(value).documents;
  for await (const { key } of rowsOf(kernel, registryFamilies.agentsByStatus))
    census.agents.add(agentStateOf(key[0] as number));
  for await (const { key } of rowsOf(kernel, buckets.indexes, tasksByOwner))
    // The index is written from the status of a task.
    census.tasks.add(key.toString().split(':').at(-2) as TaskStatus);
  for await (const { value } of rowsOf(kernel, messagingFamilies.rooms))
    // Rooms are JSON with this member.
    census.messages += (JSON.parse(value.toString()) as Pick<Room, 'messageCount'>).messageCount;
  for (const family of [registryFamilies.leases, buckets.leases, lockFamilies.locks])
    for await (const { value } of rowsOf(kernel, family)) if (isLive(kernel, value)) census.leases += 1;
  return { ...census, agents: census.agents.counts, tasks: census.tasks.counts };
}

class Tally<Name extends string> {
  readonly counts: Partial<Record<Name, number>> = {};

  add(name: Name | undefined): void {
    if (name !== undefined) this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}

async function* rowsOf(
  { stores }: Kernel,
  family: string,
  within: { gte?: Buffer; lt?: Buffer } = {},
): AsyncGenerator<{ key: Buffer; value: Buffer }> {
  const slices = new Slices();
  for (const store of stores)
    for (let after: Buffer | undefined, isMore = true; isMore;) {
      const { gte, lt } = within;
      const from = after === undefined ? gte && { gte } : { gt: after };
      const page = Array.from(store.range(family, { ...from, ...(lt && { lt }), limit: rowsPerPage }));
      yield* page;
      after = page.at(-1)?.key;
      isMore = page.length === rowsPerPage;
      await slices.pause();
    }
}

function isLive(kernel: Kernel, row: Buffer): boolean {
  // Both families contain only leases as JSON.
  const { holder, renewedAtMs, expiresAtMs } = JSON.parse(row.toString()) as StoredLease;
  return holder !== null && kernel.nowMs() < extendedByOutages(renewedAtMs, expiresAtMs, kernel.outages);
}
