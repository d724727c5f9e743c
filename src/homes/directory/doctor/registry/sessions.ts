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
import { decodeSession } from '../../../../registry/codec.js';
import { idBytes, sessionIdOf } from '../../../../registry/ids.js';
import { agentKey } from '../../../../registry/keys.js';
import type { SessionRecord } from '../../../../registry/model.js';
import { registryFamilies as families } from '../../registry/families.js';
import { noValue, removeSession, sessionIndexEntries } from '../../registry/rows.js';

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
    yield beyondRepair(families.sessions, key, 'wrong', 'The record has another id than its key.');
    return;
  }
  const user = idBytes(session.user_id);
  if (reader.get(families.agents, agentKey(user, idBytes(session.agent_id))) === undefined) {
    const orphan = surplusRow(families.sessions, key, 'dangling', 'The agent of the session is not there.');
    yield {
      ...orphan,
      repair: 'delete the session and its index entries',
      mend: (tx) => removeSession(tx, session),
    };
    return;
  }
  for (const entry of sessionIndexEntries(session)) {
    if (reader.get(entry.family, entry.key) === undefined) {
      yield missingRow(
        entry.family,
        entry.key,
        `The session ${session.session_id} is not in this index.`,
        (tx) => tx.put(entry.family, entry.key, noValue),
      );
    }
  }
  const id = Buffer.from(session.session_id);
  if (kernel.stores.length > 1 && !kernel.root.get(kernelFamilies.directory, id)?.equals(user)) {
    yield missingRow(
      kernelFamilies.directory,
      id,
      'The session is not in the directory.',
      (tx) => tx.put(kernelFamilies.directory, id, user),
      kernel.root,
    );
  }
}

function inspectIndex(family: string): Check['inspect'] {
  return function* (reader, { key }) {
    const stored = reader.get(families.sessions, key.subarray(-16));
    if (stored === undefined) {
      yield surplusRow(family, key, 'dangling', 'The session is not there.');
      return;
    }
    let session: SessionRecord;
    try {
      session = decodeSession(stored);
    } catch {
      // The check of sessions reports the record itself.
      return;
    }
    if (!sessionIndexEntries(session).some((entry) => entry.family === family && entry.key.equals(key))) {
      yield surplusRow(family, key, 'duplicate', 'The session belongs elsewhere in this index.');
    }
  };
}
