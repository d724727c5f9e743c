/** What `stoa doctor` checks of the registry's users, counts, links and of its part of the directory. */
import { userKey } from '../../../../identity/user-key.js';
import { type Damage, type ExaminedRow, damageAt, missingRow } from '../../kernel/inspect/damage.js';
import type { Check, Found } from '../../kernel/inspect/doctor.js';
import { prefixRange } from '../../kernel/engine.js';
import { kernelFamilies } from '../../kernel/families.js';
import type { Kernel } from '../../kernel/kernel.js';
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
    { family: families.identityLinks, inspect: (row) => inspectLink(owners, row) },
    { family: kernelFamilies.directory, inspect: (row) => inspectDirectory(kernel, row) },
  ];
}

function* inspectCountRow(row: ExaminedRow): Generator<Found> {
  const { reader, key } = row;
  const id = key.subarray(1);
  if (key[0] === countKinds.agentsOfUser) yield* inspectAgentCount(reader, id);
  else if (key[0] === countKinds.absentOfUser) yield* inspectAbsentCount(reader, id);
  else if (row.value.length !== 8) yield row.surplus('The row is not a valid count.');
  else if (key[0] !== countKinds.fenceOfDeleted) yield row.surplus('Unknown counter.');
  else if (reader.get(families.users, id) === undefined) yield row.dangling('The user does not exist.');
}

function* inspectUserName(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  if (!userKey(row.value.toString()).equals(key)) {
    yield row.surplus('The readable id does not match the key of the user.');
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

function* inspectUser(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  if (reader.get(families.userNames, key) === undefined && !isNamedByAgent(reader, key))
    yield damageAt(
      families.userNames,
      key,
      'missing',
      'The readable id of a user is missing. The next write of the user restores it.',
      null,
    );
  if (decodeUser(row.value).user_id !== key.toString('hex'))
    yield row.beyondRepair('The id in the record differs from the id in its key.');
}

/** The check of agents has reported it then. */
function isNamedByAgent(reader: Reader, user: Buffer): boolean {
  for (const { value } of reader.range(families.agentMeta, { ...prefixRange(user), limit: 1 }))
    return userKey(decodeMeta(value).user).equals(user);
  return false;
}

function* inspectUserSettings(row: ExaminedRow): Generator<Damage> {
  if (row.reader.get(families.users, row.key) === undefined) yield row.dangling('The user does not exist.');
  else decodeJson(row.value, 'user settings');
}

/** Both directions of a link must match, and the agent must exist. */
function* inspectLink(owners: AgentOwners, row: ExaminedRow): Generator<Damage> {
  const { reader, key, value } = row;
  const byAgent = key[0] === linkKinds.byAgent;
  const agent = byAgent ? key.subarray(1, 33) : value;
  const identity = (byAgent ? key.subarray(33) : key.subarray(1)).toString();
  if (!owners.exists(reader, agent)) {
    yield row.dangling('The link belongs to an agent that does not exist.');
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
  else yield* inspectIndexRow(row, linkRecords.rowsOf({ agent: back, identity }), 'link');
}

const agentId = /^[0-9a-f]{64}$/;
const sessionId = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Only agents and sessions are removed from the directory of ids when they are deleted. Ids of other records
 * may have no record.
 */
function* inspectDirectory(kernel: Kernel, row: ExaminedRow): Generator<Damage> {
  if (row.store !== kernel.root) return;
  const id = row.key.toString();
  const shard = kernel.storeOf(row.value);
  const pointsToNothing =
    (agentId.test(id) && shard.get(families.agentsById, Buffer.from(id, 'hex')) === undefined) ||
    (sessionId.test(id) && shard.get(families.sessions, sessionBytes(id)) === undefined);
  if (pointsToNothing) yield row.dangling('The directory of ids has an id of a record that does not exist.');
}
