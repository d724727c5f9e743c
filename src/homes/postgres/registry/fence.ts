/** Checks fencing numbers inside the transactions of every domain. */
import type { Caller } from '../../../core/caller.js';
import { checkFence, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import { fencedAgentDeleted } from '../../../registry/refusals.js';
import type { Work } from '../write/work.js';
import { type Row, agentOf, nowColumn, number, selectAgents } from './rows.js';
import { userIdOf } from './users.js';

/** FOR SHARE: writes of the same agent do not block each other, but changes of the lease have to wait. */
const lockLease = `WITH locked AS MATERIALIZED (
    SELECT a.*, u.name AS user_name FROM registry.agents a JOIN registry.users u ON u.user_id = a.user_id
      WHERE a.user_id = $1 AND a.agent_id = $2 FOR SHARE OF a)
  ${selectAgents('locked', [nowColumn])}`;

/** Refuses a caller whose lease has a new holder. The lease cannot change until this transaction ends. */
export async function checkCallerFence(
  work: Work,
  { user, agentId, fence }: Pick<Caller, 'user' | 'agentId' | 'fence'>,
  clock?: () => number,
): Promise<void> {
  if (agentId === null || fence === null) return;
  const [row] = await work.rows<Row>(lockLease, [userIdOf(user), agentId]);
  if (row === undefined) throw fencedAgentDeleted(agentId, fence);
  const nowMs = clock?.() ?? number(row, 'now_ms');
  checkFence(agentOf(row).lease, fence, leaseTimesOf(work.limits, []), nowMs);
}
