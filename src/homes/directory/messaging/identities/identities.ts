/** Identities in the data directory: registered once for each key, renamed, rotated, linked. */
import { type IdentityEvent, identityChanged } from '../../../../messaging/changes.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { refuseMoreKeys } from '../../../../messaging/refusals.js';
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Outdated } from '../../../../core/write.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Identity, IdentityKey, IdentityLink } from '../../../../messaging/model.js';
import type {
  KeptIdentity,
  KeyRotation,
  NewIdentity,
  ProfileUpdate,
  SealedIdentity,
} from '../../../../messaging/port.js';
import { agentNameOf } from '../../../../messaging/names.js';
import { ownerOfUser } from '../../../../messaging/identities/kept-owner.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { identityKeyRecords, keyBytes } from '../indexes.js';
import {
  type IdentityKeyRow,
  type IdentityRow,
  type KeptRow,
  decode,
  encode,
  families,
  timeOfKey,
} from '../rows.js';
import { countAgent } from '../totals.js';
import { prefixRange } from '../../kernel/engine.js';

export function readIdentity(reader: Reader, id: Buffer): Identity | undefined {
  const value = reader.get(families.agents, id);
  return value === undefined ? undefined : decode<IdentityRow>(value);
}

export function register(tx: Transaction, input: NewIdentity): { identity: Identity; created: boolean } {
  const known = tx.get(families.agentsByKey, keyBytes(input.publicKey));
  const existing = known === undefined ? undefined : readIdentity(tx, known);
  if (existing !== undefined) {
    // The signature proves a registration that was only claimed before.
    const proven =
      input.proven && !existing.proven ? updateProfile(tx, existing.id, { proven: true }) : undefined;
    return { identity: proven ?? existing, created: false };
  }
  const id = randomUUID();
  return { identity: insert(tx, input, { id, link: null, serverKept: false }), created: true };
}

/**
 * Stores the identity of an owner in shard 00, unless the owner has one. `agent` is the owner's agent; null
 * means the user itself.
 */
export function keep(
  root: Transaction,
  made: KeptIdentity,
  agent: { readonly id: string; readonly name: string } | null,
): SealedIdentity {
  const { keptFor, sealedSeed, id } = made;
  const owner = agent?.id ?? ownerOfUser(keptFor.user);
  const known = readKept(root, owner);
  if (known !== undefined) return known;
  // It was stored for an agent that was deleted or renamed since.
  if (readIdentity(root, uuidBytes(id)) !== undefined)
    throw new Outdated('The identity that the server keeps for the caller');
  const link: IdentityLink = {
    user: keptFor.user,
    agentId: agent?.id ?? null,
    agentName: agent?.name ?? null,
    write: true,
    namespaces: null,
    linkedAtMs: root.nowMs,
  };
  const identity = insert(root, made, { id, link, serverKept: true });
  root.put(families.keptAgents, Buffer.from(owner, 'hex'), encode({ id, sealedSeed } satisfies KeptRow));
  return { identity, owner, sealedSeed };
}

export function readKept(reader: Reader, owner: string): SealedIdentity | undefined {
  const value = reader.get(families.keptAgents, Buffer.from(owner, 'hex'));
  if (value === undefined) return undefined;
  const { id, sealedSeed } = decode<KeptRow>(value);
  const identity = readIdentity(reader, uuidBytes(id));
  return identity === undefined ? undefined : { identity, owner, sealedSeed };
}

/** An agent was renamed: its kept identity and the links of its other identities get the new name. */
export function renameAgent(
  root: Transaction,
  agentId: string,
  name: string,
  linked: readonly string[],
): void {
  const kept = readKept(root, agentId);
  const relinked = ({ link, ...identity }: Identity): Identity => ({
    ...identity,
    link: link?.agentId === agentId ? { ...link, agentName: name } : link,
  });
  if (kept !== undefined)
    update(root, kept.identity.id, 'updated', (identity) => ({
      ...relinked(identity),
      name: agentNameOf(name),
    }));
  for (const id of linked) update(root, id, 'updated', relinked);
}

/** The agent was removed. Its messages keep their author, an identity that no longer belongs to an agent. */
export function forgetKept(root: Transaction, agentId: string): void {
  const kept = readKept(root, agentId);
  if (kept === undefined) return;
  root.delete(families.keptAgents, Buffer.from(agentId, 'hex'));
  update(root, kept.identity.id, 'unlinked', (identity) => ({ ...identity, link: null }));
}

export function keptBy(reader: Reader, owner: string): string | undefined {
  const value = reader.get(families.keptAgents, Buffer.from(owner, 'hex'));
  return value === undefined ? undefined : decode<KeptRow>(value).id;
}

/** One step of re-keying: a number of rows after `after`. Returns where to continue, or null at the end. */
export function resealStep(
  tx: Transaction,
  after: Buffer | null,
  rowsPerStep: number,
  reseal: (sealedSeed: string, id: string) => string,
): { changed: number; next: Buffer | null } {
  const rows = [
    ...tx.range(families.keptAgents, { ...(after !== null && { gt: after }), limit: rowsPerStep }),
  ];
  let changed = 0;
  for (const { key, value } of rows) {
    const row = decode<KeptRow>(value);
    const sealedSeed = reseal(row.sealedSeed, row.id);
    if (sealedSeed === row.sealedSeed) continue;
    tx.put(families.keptAgents, key, encode({ ...row, sealedSeed } satisfies KeptRow));
    changed += 1;
  }
  return { changed, next: rows.length < rowsPerStep ? null : (rows.at(-1)?.key ?? null) };
}

function insert(
  tx: Transaction,
  { publicKey, name, email, proven }: NewIdentity,
  { id, link, serverKept }: Pick<Identity, 'id' | 'link' | 'serverKept'>,
): Identity {
  const identity: Identity = {
    id,
    publicKey,
    name,
    email,
    createdAtMs: tx.nowMs,
    updatedAtMs: tx.nowMs,
    proven,
    serverKept,
    link,
  };
  const idBytes = uuidBytes(id);
  tx.put(families.agents, idBytes, encode(identity));
  identityKeyRecords.put(tx, undefined, { agent: idBytes, publicKey, fromMs: tx.nowMs, proof: null });
  countAgent(tx);
  tx.change(identityChanged(id, 'registered'));
  return identity;
}

export function updateProfile(tx: Transaction, id: string, profile: ProfileUpdate): Identity | undefined {
  return update(tx, id, 'updated', (current) => ({ ...current, ...profile }));
}

/** Links an identity if its key and its link are the same as when the link was checked. */
export function link(tx: Transaction, before: Identity, given: IdentityLink | null): Identity {
  const current = readIdentity(tx, uuidBytes(before.id));
  if (current?.publicKey !== before.publicKey || !isDeepStrictEqual(current.link, before.link))
    throw new Outdated(`The identity ${before.id}`);
  const event = given === null ? 'unlinked' : 'linked';
  return update(tx, before.id, event, (identity) => ({ ...identity, link: given })) ?? current;
}

function update(
  tx: Transaction,
  id: string,
  event: IdentityEvent,
  change: (current: Identity) => Identity,
): Identity | undefined {
  const idBytes = uuidBytes(id);
  const current = readIdentity(tx, idBytes);
  if (current === undefined) return undefined;
  const next = { ...change(current), updatedAtMs: tx.nowMs };
  tx.put(families.agents, idBytes, encode(next));
  tx.change(identityChanged(id, event));
  return next;
}

export function rotateKey(
  tx: Transaction,
  { id, oldPublicKey, newPublicKey, proof }: KeyRotation,
  limits: Limits,
): 'rotated' | 'taken' | 'stale' {
  const idBytes = uuidBytes(id);
  const current = readIdentity(tx, idBytes);
  if (current === undefined || current.publicKey !== oldPublicKey) return 'stale';
  if (tx.get(families.agentsByKey, keyBytes(newPublicKey)) !== undefined) return 'taken';
  const known = Array.from(
    tx.range(families.agentKeys, { ...prefixRange(idBytes), limit: limits.identityKeysMax }),
  );
  if (known.length >= limits.identityKeysMax) throw refuseMoreKeys(limits);
  const newest = known.at(-1);
  // Two rotations in one millisecond would share a key of the history.
  const fromMs = Math.max(tx.nowMs, newest === undefined ? 0 : timeOfKey(newest.key) + 1);
  tx.put(
    families.agents,
    idBytes,
    encode({ ...current, publicKey: newPublicKey, updatedAtMs: tx.nowMs } satisfies IdentityRow),
  );
  identityKeyRecords.put(tx, undefined, { agent: idBytes, publicKey: newPublicKey, fromMs, proof });
  tx.change(identityChanged(id, 'rotated'));
  return 'rotated';
}

export function keysOf(reader: Reader, id: string): IdentityKey[] {
  const rows = Array.from(reader.range(families.agentKeys, prefixRange(uuidBytes(id))), ({ value }) =>
    decode<IdentityKeyRow>(value),
  );
  return rows.map((row, index) => ({ ...row, untilMs: rows[index + 1]?.fromMs ?? null }));
}

export function identitiesOf(reader: Reader, ids: readonly string[]): Map<string, Identity> {
  const found = new Map<string, Identity>();
  const values = reader.getMany(families.agents, ids.map(uuidBytes));
  for (const value of values) {
    if (value === undefined) continue;
    const identity = decode<IdentityRow>(value);
    found.set(identity.id, identity);
  }
  return found;
}
