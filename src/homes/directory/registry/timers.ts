/** The timers of an agent: at most one of each kind, set to the time in the agent's rows. */
import { idBytes } from '../../../registry/ids.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { Transaction } from '../kernel/transaction.js';

export const leaseTimer = 'registry.lease';
export const activityTimer = 'registry.activity';

export function setTimer(
  tx: Transaction,
  kind: string,
  { record }: Pick<StoredAgent, 'record'>,
  beforeMs: number | null,
  afterMs: number | null,
): void {
  if (beforeMs === afterMs) return;
  const reference = idBytes(record.agent_id);
  if (beforeMs !== null) tx.unschedule({ atMs: beforeMs, kind, reference });
  if (afterMs !== null) tx.schedule({ atMs: afterMs, kind, reference });
}
