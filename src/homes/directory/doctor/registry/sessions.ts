/** What `stoa doctor` checks of the registry's sessions. */
import { idBytes, sessionIdOf } from '../../../../registry/ids.js';
import { decodeSession } from '../../../../registry/layout/codec.js';
import { agentKey, sessionKeyBytes } from '../../../../registry/layout/keys.js';
import type { SessionRecord } from '../../../../registry/model.js';
import type { Damage, ExaminedRow } from '../../kernel/inspect/damage.js';
import type { Check } from '../../kernel/inspect/doctor.js';
import type { Kernel } from '../../kernel/kernel.js';
import { registryFamilies as families } from '../../registry/families.js';
import { sessionRecords } from '../../registry/indexes.js';
import { inspectId } from '../directory.js';
import { indexCheck, inspectRows } from '../indexes.js';

export function sessionChecks(kernel: Kernel): Check[] {
  return [
    { family: families.sessions, inspect: (row) => inspectSession(kernel, row) },
    indexCheck(families.sessionsByAgent, 'session', sessionRecords, sessionOfIndex),
    indexCheck(families.sessionsByStatus, 'session', sessionRecords, sessionOfIndex),
  ];
}

function* inspectSession(kernel: Kernel, row: ExaminedRow): Generator<Damage> {
  const session = decodeSession(row.value);
  if (session.session_id !== sessionIdOf(row.key)) {
    yield row.beyondRepair('The id in the record differs from the id in its key.');
    return;
  }
  const user = idBytes(session.user_id);
  if (row.reader.get(families.agents, agentKey(user, idBytes(session.agent_id))) === undefined) {
    yield {
      ...row.dangling('The session belongs to an agent that does not exist.'),
      repair: 'delete the session and its index entries',
      applyRepair: (tx) => sessionRecords.remove(tx, session),
    };
    return;
  }
  yield* inspectRows(row.reader, sessionRecords.rowsOf(session), `the session ${session.session_id}`);
  yield* inspectId(kernel, session.session_id, user);
}

function sessionOfIndex({ reader, key }: ExaminedRow): SessionRecord | undefined {
  const stored = reader.get(families.sessions, key.subarray(-sessionKeyBytes));
  return stored && decodeSession(stored);
}
