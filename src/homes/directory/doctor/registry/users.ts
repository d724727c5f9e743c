/** What `stoa doctor` checks of the registry's users, counts, links and of its part of the directory. */
import { messageOf } from '../../../../core/errors.js';
import { userKey } from '../../../../identity/user-key.js';
import {
  type Check,
  type Damage,
  type Found,
  beyondRepair,
  missingRow,
  surplusRow,
} from '../../kernel/inspect/doctor.js';
import { type Entry, prefixRange } from '../../kernel/engine.js';
import { kernelFamilies } from '../../kernel/families.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import type { Reader } from '../../kernel/transaction.js';
import { decodeUser, encodeUser } from '../../../../registry/layout/codec.js';
import { sessionBytes } from '../../../../registry/ids.js';
import { countKinds, linkByIdentityKey, linkKinds } from '../../../../registry/layout/keys.js';
import { inspectIndexRow, inspectRows } from '../indexes.js';
import { type AgentOwners, inspectAbsentCount, inspectAgentCount } from './owner.js';
import { registryFamilies as families } from '../../registry/families.js';
import { linkRecords } from '../../registry/indexes.js';
import { decodeJson, decodeMeta } from '../../registry/rows.js';

export function userChecks(kernel: Kernel, owners: AgentOwners): Check[] {
  return [
    { family: families.counts, inspect: inspectCountRow },
    { family: families.userNames, inspect: inspectUserName },
    { family: families.users, inspect: inspectUser },
    { family: families.userSettings, inspect: inspectUserSettings },
    { family: families.identityLinks, inspect: (reader, entry) => inspectLink(owners, reader, entry) },
    {
      family: kernelFamilies.directory,
      inspect: (_reader, entry, store) => inspectDirectory(kernel, entry, store),
    },
  ];
}

function* inspectCountRow(reader: Reader, { key, value }: Entry): Generator<Found> {
  const id = key.subarray(1);
  if (key[0] === countKinds.agentsOfUser) yield* inspectAgentCount(reader, id);
  else if (key[0] === countKinds.absentOfUser) yield* inspectAbsentCount(reader, id);
  else if (value.length !== 8)
    yield surplusRow(families.counts, key, 'wrong', 'The row is not a valid count.');
  else if (key[0] === countKinds.fenceOfDeleted && reader.get(families.users, id) === undefined)
    yield surplusRow(families.counts, key, 'dangling', 'The user does not exist.');
  else if (key[0] !== countKinds.fenceOfDeleted)
    yield surplusRow(families.counts, key, 'wrong', 'Unknown counter.');
}

function* inspectUserName(reader: Reader, { key, value }: Entry): Generator<Damage> {
  if (!userKey(value.toString()).equals(key)) {
    yield surplusRow(families.userNames, key, 'wrong', 'The readable id does not match the key of the user.');
    return;
  }
  if (reader.get(families.users, key) !== undefined) return;
  yield missingRow(families.users, key, 'The record of a user is missing.', (tx) =>
    tx.put(
      families.users,
      key,
      encodeUser({ user_id: key.toString('hex'), email: '', created_at: tx.nowMs, last_seen_at: tx.nowMs }),
    ),
  );
}

function* inspectUser(reader: Reader, { key, value }: Entry): Generator<Damage> {
  try {
    if (decodeUser(value).user_id !== key.toString('hex'))
      yield beyondRepair(
        families.users,
        key,
        'wrong',
        'The id in the record differs from the id in its key.',
      );
  } catch (error) {
    yield beyondRepair(families.users, key, 'unreadable', messageOf(error));
  }
  if (reader.get(families.userNames, key) === undefined && !isNamedByAgent(reader, key)) {
    yield beyondRepair(
      families.userNames,
      key,
      'missing',
      'The readable id of a user is missing. The next write of the user restores it.',
    );
  }
}

/** The check of agents has reported it then. */
function isNamedByAgent(reader: Reader, user: Buffer): boolean {
  for (const { value } of reader.range(families.agentMeta, { ...prefixRange(user), limit: 1 }))
    return userKey(decodeMeta(value).user).equals(user);
  return false;
}

function* inspectUserSettings(reader: Reader, { key, value }: Entry): Generator<Damage> {
  if (reader.get(families.users, key) === undefined) {
    yield surplusRow(families.userSettings, key, 'dangling', 'The user does not exist.');
    return;
  }
  try {
    decodeJson(value, 'user settings');
  } catch (error) {
    yield beyondRepair(families.userSettings, key, 'unreadable', messageOf(error));
  }
}

/** Both directions of a link must match, and the agent must exist. */
function* inspectLink(owners: AgentOwners, reader: Reader, { key, value }: Entry): Generator<Damage> {
  const byAgent = key[0] === linkKinds.byAgent;
  const agent = byAgent ? key.subarray(1, 33) : value;
  const identity = (byAgent ? key.subarray(33) : key.subarray(1)).toString();
  if (!owners.exists(reader, agent)) {
    yield surplusRow(
      families.identityLinks,
      key,
      'dangling',
      'The link belongs to an agent that does not exist.',
    );
    return;
  }
  if (!byAgent) {
    yield* inspectRows(reader, linkRecords.rowsOf({ agent, identity }), `the link of ${identity}`);
    return;
  }
  const back = reader.get(families.identityLinks, linkByIdentityKey(identity));
  if (back === undefined)
    yield missingRow(
      families.identityLinks,
      linkByIdentityKey(identity),
      `The row of the link of ${identity} is missing.`,
      (tx) => linkRecords.rewrite(tx, { agent, identity }),
    );
  else
    yield* inspectIndexRow(
      families.identityLinks,
      { key, value },
      linkRecords.rowsOf({ agent: back, identity }),
      'link',
    );
}

const agentId = /^[0-9a-f]{64}$/;
const sessionId = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Only agents and sessions are removed from the directory of ids when they are deleted. Ids of other records
 * may have no record.
 */
function* inspectDirectory(kernel: Kernel, { key, value }: Entry, store: Store): Generator<Damage> {
  if (store !== kernel.root) return;
  const id = key.toString();
  const shard = kernel.storeOf(value);
  const pointsToNothing =
    (agentId.test(id) && shard.get(families.agentsById, Buffer.from(id, 'hex')) === undefined) ||
    (sessionId.test(id) && shard.get(families.sessions, sessionBytes(id)) === undefined);
  if (pointsToNothing)
    yield surplusRow(
      kernelFamilies.directory,
      key,
      'dangling',
      'The directory of ids has an id of a record that does not exist.',
    );
}
