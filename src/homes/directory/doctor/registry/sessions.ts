/** What `stoa doctor` checks of the registry's sessions. */
import { messageOf } from '../../../../core/errors.js';
import {
  type Check,
  type Damage,
  beyondRepair,
  missingRow,
  surplusRow,
} from '../../kernel/inspect/doctor.js';
import type { Entry } from '../../kernel/engine.js';
import { kernelFamilies } from '../../kernel/families.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Reader } from '../../kernel/transaction.js';
import { decodeSession } from '../../../../registry/layout/codec.js';
import { idBytes, sessionIdOf } from '../../../../registry/ids.js';
import { agentKey, sessionKeyBytes } from '../../../../registry/layout/keys.js';
import type { SessionRecord } from '../../../../registry/model.js';
import { inspectIndexRow, inspectRows } from '../indexes.js';
import { registryFamilies as families } from '../../registry/families.js';
import { sessionRecords } from '../../registry/indexes.js';

export function sessionChecks(kernel: Kernel): Check[] {
  return [
    { family: families.sessions, inspect: (reader, entry) => inspectSession(kernel, reader, entry) },
    { family: families.sessionsByAgent, inspect: inspectIndex(families.sessionsByAgent) },
    { family: families.sessionsByStatus, inspect: inspectIndex(families.sessionsByStatus) },
  ];
}

function* inspectSession(kernel: Kernel, reader: Reader, { key, value }: Entry): Generator<Damage> {
  let session: SessionRecord;
  try {
    session = decodeSession(value);
  } catch (error) {
    yield beyondRepair(families.sessions, key, 'unreadable', messageOf(error));
    return;
  }
  if (session.session_id !== sessionIdOf(key)) {
    yield beyondRepair(
      families.sessions,
      key,
      'wrong',
      'The id in the record differs from the id in its key.',
    );
    return;
  }
  const user = idBytes(session.user_id);
  if (reader.get(families.agents, agentKey(user, idBytes(session.agent_id))) === undefined) {
    const orphan = surplusRow(
      families.sessions,
      key,
      'dangling',
      'The session belongs to an agent that does not exist.',
    );
    yield {
      ...orphan,
      repair: 'delete the session and its index entries',
      applyRepair: (tx) => sessionRecords.remove(tx, session),
    };
    return;
  }
  yield* inspectRows(reader, sessionRecords.rowsOf(session), `the session ${session.session_id}`);
  const id = Buffer.from(session.session_id);
  if (kernel.stores.length > 1 && !kernel.root.get(kernelFamilies.directory, id)?.equals(user)) {
    yield missingRow(
      kernelFamilies.directory,
      id,
      'The session is missing in the directory of ids.',
      (tx) => tx.put(kernelFamilies.directory, id, user),
      kernel.root,
    );
  }
}

function inspectIndex(family: string): Check['inspect'] {
  return function* (reader, entry) {
    const stored = reader.get(families.sessions, entry.key.subarray(-sessionKeyBytes));
    if (stored === undefined) {
      yield* inspectIndexRow(family, entry, undefined, 'session');
      return;
    }
    let session: SessionRecord;
    try {
      session = decodeSession(stored);
    } catch {
      // The check of sessions reports the record itself.
      return;
    }
    yield* inspectIndexRow(family, entry, sessionRecords.rowsOf(session), 'session');
  };
}
