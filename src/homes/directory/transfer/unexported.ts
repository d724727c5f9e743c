/** Tokens and kept seeds in a data directory, as a move takes them. All of them are stored in shard 00. */
import type { Sealer } from '../../../secrets/sealer.js';
import { orphan } from '../../../transfer/import/conflicts.js';
import type { KeptSeedLine, TokenLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import { readToken, restoreToken, tokenFamilies } from '../identity/identity.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader } from '../kernel/transaction.js';
import { readIdentity } from '../messaging/identities/identities.js';
import { type KeptRow, decode, encode, families } from '../messaging/rows.js';
import { FamilyRecords } from './records.js';

const everybody = (): null => null;

export function unexportedRecords(kernel: Kernel, sealer: Sealer): [type: string, store: RecordStore][] {
  return [
    [
      'identity.token',
      new FamilyRecords<TokenLine>(kernel, {
        family: tokenFamilies.tokens,
        read: tokenLine,
        userOf: everybody,
        stored: (reader, { id }) => tokenLine(reader, { key: Buffer.from(id, 'hex') }),
        put: (tx, { type: _type, lastUsedAtMs, ...record }) => restoreToken(tx, record, lastUsedAtMs),
      }),
    ],
    [
      'messaging.seed',
      new FamilyRecords<KeptSeedLine>(kernel, {
        family: families.keptAgents,
        read: (_reader, { key, value }) => seedLine(key, value, sealer),
        userOf: everybody,
        stored: (reader, { owner }) => {
          const key = Buffer.from(owner, 'hex');
          const value = reader.get(families.keptAgents, key);
          return value === undefined ? undefined : seedLine(key, value, sealer);
        },
        obstacle: (reader, { identity }) =>
          readIdentity(reader, uuidBytes(identity)) === undefined ? orphan(`The identity ${identity}`) : null,
        put: (tx, { owner, identity: id, seed }) =>
          tx.put(
            families.keptAgents,
            Buffer.from(owner, 'hex'),
            encode({ id, sealedSeed: sealer.seal(seed, id) } satisfies KeptRow),
          ),
      }),
    ],
  ];
}

function tokenLine(reader: Reader, { key }: { key: Buffer }): TokenLine | undefined {
  const record = readToken(reader, key);
  const use = reader.get(tokenFamilies.tokenUses, key);
  if (record === undefined) return undefined;
  return {
    type: 'identity.token',
    ...record,
    lastUsedAtMs: use === undefined ? null : Number(use.toString()),
  };
}

function seedLine(key: Buffer, value: Buffer, sealer: Sealer): KeptSeedLine {
  const owner = key.toString('hex');
  const { id, sealedSeed } = decode<KeptRow>(value);
  return { type: 'messaging.seed', owner, identity: id, seed: sealer.open(sealedSeed, id) };
}
