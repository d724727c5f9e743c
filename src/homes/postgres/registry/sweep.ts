/** The due timers of the registry: expired leases, inactive agents, agents to be forgotten. */
import { operatorCaller } from '../../../core/caller.js';
import { type Writer, writeOne } from '../../../core/write.js';
import { forgetAgent } from '../../../registry/lifecycle/forgetting.js';
import { PostgresStep } from '../write/step.js';
import { sweepActivity, sweepLeases } from './agents.js';
import type { PostgresRegistry } from './registry.js';

/** No client asked for these writes. */
const request = { caller: operatorCaller() };

/** Handles due timers, a few per write. Skips rows that another server has locked. */
export async function sweepRegistry(
  registry: PostgresRegistry,
  writer: Writer,
  isOver: () => boolean = () => false,
): Promise<void> {
  const { sweepStepMax } = registry.limits;
  const leases = new PostgresStep([], (work) => sweepLeases(registry.partOf(work), sweepStepMax));
  for (let isMore = true; isMore && !isOver();) {
    const { count, forgotten } = await writeOne(writer, request, leases);
    for (const agentId of forgotten) if (!isOver()) await forgetAgent(writer, registry, agentId);
    isMore = count === sweepStepMax;
  }
  const activity = new PostgresStep([], (work) => sweepActivity(registry.partOf(work), sweepStepMax));
  while (!isOver() && (await writeOne(writer, request, activity)) === sweepStepMax);
}
