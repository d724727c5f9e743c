/** Identities in the embedded store: registered once a key, renamed, rotated, linked. */
import { randomUUID } from 'node:crypto';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Identity, IdentityKey, IdentityLink } from '../../messaging/model.js';
import type { KeptIdentity, KeyRotation, NewIdentity, ProfileUpdate } from '../../messaging/port.js';
import { uuidBytes } from '../../messaging/uuid.js';
import {
  type IdentityKeyRow,
  type IdentityRow,
  type KeptRow,
  decode,
  encode,
  families,
  timeOfKey,
  timedKey,
} from './messaging-rows.js';
import { countAgent } from './messaging-totals.js';
import { prefixRange } from '../../kernel/engine.js';

export function readIdentity(reader: Reader, id: Buffer): Identity | undefined {
  const value = reader.get(families.agents, id);
  return value === undefined ? undefined : decode<IdentityRow>(value);
}

export function register(tx: Transaction, input: NewIdentity): { identity: Identity; created: boolean } {
  const known = tx.get(families.agentsByKey, keyBytes(input.publicKey));
  const existing = known === undefined ? undefined : readIdentity(tx, known);
  if (existing !== undefined) return { identity: existing, created: false };
  return { identity: insert(tx, input, false), created: true };
}

export function keep(
  tx: Transaction,
  owner: string,
  make: () => KeptIdentity,
): { identity: Identity; sealedSeed: string } {
  const ownerKey = Buffer.from(owner, 'hex');
  const value = tx.get(families.keptAgents, ownerKey);
  if (value !== undefined) {
    const { id, sealedSeed } = decode<KeptRow>(value);
    const identity = readIdentity(tx, uuidBytes(id));
    if (identity !== undefined) return { identity, sealedSeed };
  }
  const made = make();
  const identity = insert(tx, made, true);
  tx.put(
    families.keptAgents,
    ownerKey,
    encode({ id: identity.id, sealedSeed: made.sealedSeed } satisfies KeptRow),
  );
  return { identity, sealedSeed: made.sealedSeed };
}

export function keptBy(reader: Reader, owner: string): string | undefined {
  const value = reader.get(families.keptAgents, Buffer.from(owner, 'hex'));
  return value === undefined ? undefined : decode<KeptRow>(value).id;
}

/** One step of re-keying: so many rows after `after`; answers where to go on, or null at the end. */
export function resealStep(
  tx: Transaction,
  after: Buffer | null,
  rowsPerStep: number,
  reseal: (sealedSeed: string, owner: string) => string,
): { changed: number; next: Buffer | null } {
  const rows = [
    ...tx.range(families.keptAgents, { ...(after !== null && { gt: after }), limit: rowsPerStep }),
  ];
  let changed = 0;
  for (const { key, value } of rows) {
    const row = decode<KeptRow>(value);
    const sealedSeed = reseal(row.sealedSeed, key.toString('hex'));
    if (sealedSeed === row.sealedSeed) continue;
    tx.put(families.keptAgents, key, encode({ ...row, sealedSeed } satisfies KeptRow));
    changed += 1;
  }
  return { changed, next: rows.length < rowsPerStep ? null : (rows.at(-1)?.key ?? null) };
}

function insert(
  tx: Transaction,
  { publicKey, name, email, proven }: NewIdentity,
  serverKept: boolean,
): Identity {
  const id = randomUUID();
  const identity: Identity = {
    id,
    publicKey,
    name,
    email,
    createdAtMs: tx.nowMs,
    updatedAtMs: tx.nowMs,
    proven,
    serverKept,
    link: null,
  };
  const idBytes = uuidBytes(id);
  tx.put(families.agents, idBytes, encode(identity));
  tx.put(families.agentsByKey, keyBytes(publicKey), idBytes);
  tx.put(
    families.agentKeys,
    timedKey(idBytes, tx.nowMs),
    encode({ publicKey, fromMs: tx.nowMs, proof: null } satisfies IdentityKeyRow),
  );
  countAgent(tx);
  tx.change({
    domain: 'messaging',
    kind: 'identity.registered',
    id,
    user: null,
    version: null,
    audience: 'public',
  });
  return identity;
}

export function updateProfile(tx: Transaction, id: string, profile: ProfileUpdate): Identity | undefined {
  return update(tx, id, 'identity.updated', (current) => ({ ...current, ...profile }));
}

export function link(tx: Transaction, id: string, given: IdentityLink | null): Identity | undefined {
  return update(tx, id, given === null ? 'identity.unlinked' : 'identity.linked', (current) => ({
    ...current,
    link: given,
  }));
}

function update(
  tx: Transaction,
  id: string,
  kind: string,
  change: (current: Identity) => Identity,
): Identity | undefined {
  const idBytes = uuidBytes(id);
  const current = readIdentity(tx, idBytes);
  if (current === undefined) return undefined;
  const next = { ...change(current), updatedAtMs: tx.nowMs };
  tx.put(families.agents, idBytes, encode(next));
  tx.change({ domain: 'messaging', kind, id, user: null, version: null, audience: 'public' });
  return next;
}

export function rotateKey(
  tx: Transaction,
  { id, oldPublicKey, newPublicKey, proof }: KeyRotation,
): 'rotated' | 'taken' | 'stale' {
  const idBytes = uuidBytes(id);
  const current = readIdentity(tx, idBytes);
  if (current === undefined || current.publicKey !== oldPublicKey) return 'stale';
  if (tx.get(families.agentsByKey, keyBytes(newPublicKey)) !== undefined) return 'taken';
  const newest = [...tx.range(families.agentKeys, { ...prefixRange(idBytes), reverse: true, limit: 1 })][0];
  // Two rotations in one millisecond would share a key of the history.
  const fromMs = Math.max(tx.nowMs, newest === undefined ? 0 : timeOfKey(newest.key) + 1);
  tx.put(
    families.agents,
    idBytes,
    encode({ ...current, publicKey: newPublicKey, updatedAtMs: tx.nowMs } satisfies IdentityRow),
  );
  tx.put(families.agentsByKey, keyBytes(newPublicKey), idBytes);
  tx.put(
    families.agentKeys,
    timedKey(idBytes, fromMs),
    encode({ publicKey: newPublicKey, fromMs, proof } satisfies IdentityKeyRow),
  );
  tx.change({
    domain: 'messaging',
    kind: 'identity.rotated',
    id,
    user: null,
    version: null,
    audience: 'public',
  });
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

export function keyBytes(publicKey: string): Buffer {
  return Buffer.from(publicKey, 'base64');
}
