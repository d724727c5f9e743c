/**
 * Questions of several checks of the registry: whether an agent exists, and whether a stored count is
 * correct.
 */
import { type Damage, wrongRow } from '../../kernel/inspect/damage.js';
import { type Found, eachRow, type turn } from '../../kernel/inspect/doctor.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Reader } from '../../kernel/transaction.js';
import { absentCountKey, agentCountKey, agentKey } from '../../../../registry/layout/keys.js';
import { registryFamilies as families } from '../../registry/families.js';
import { isAbsent } from '../../../../registry/lifecycle/presence.js';
import { readable } from '../indexes.js';
import { readAgent, readCount, writeCount } from '../../registry/rows.js';

/** Finds agents by their id alone, for one examination. */
export class AgentOwners {
  /**
   * Existing agents that their row by id does not lead to. That row is repaired or reported; rows that name
   * these agents are right.
   */
  readonly #unlisted = new Set<string>();

  remember(agent: Buffer): void {
    this.#unlisted.add(agent.toString('hex'));
  }

  exists(reader: Reader, agent: Buffer): boolean {
    const owner = reader.get(families.agentsById, agent);
    if (owner !== undefined && reader.get(families.agents, agentKey(owner, agent)) !== undefined) return true;
    return this.#unlisted.has(agent.toString('hex'));
  }
}

export function* inspectAgentCount(reader: Reader, user: Buffer): Generator<Found> {
  const counted = yield* countRows(reader, families.agents, user);
  yield* inspectStored(reader, agentCountKey(user), 'agents', counted);
}

/** The agents that do not count in the quota. */
export function* inspectAbsentCount(reader: Reader, user: Buffer): Generator<Found> {
  let counted = 0;
  yield* eachRow(reader, families.agents, prefixRange(user), (row) => {
    if (isAbsentRow(reader, row.key)) counted += 1;
  });
  yield* inspectStored(reader, absentCountKey(user), 'absent agents', counted);
}

function* inspectStored(reader: Reader, key: Buffer, what: string, counted: number): Generator<Damage> {
  const stored = reader.get(families.counts, key);
  const kept = stored === undefined || stored.length === 8 ? readCount(reader, key) : NaN;
  if (kept !== counted)
    yield wrongRow(families.counts, key, `The count of ${what} is ${kept}. Expected ${counted}.`, (tx) =>
      writeCount(tx, key, counted),
    );
}

/** A row that cannot be read is reported by the check of agents. */
function isAbsentRow(reader: Reader, key: Buffer): boolean {
  const agent = readable(() => readAgent(reader, key));
  return agent !== undefined && isAbsent(agent);
}

export function* countRows(reader: Reader, family: string, prefix: Buffer): Generator<typeof turn, number> {
  let count = 0;
  yield* eachRow(reader, family, prefixRange(prefix), () => (count += 1));
  return count;
}
