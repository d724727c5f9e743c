/** The users of the registry: their names and quotas. */
import { userKey } from '../../../identity/user-key.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { decodeUser, encodeUser } from '../../../registry/layout/codec.js';
import { userNotFound } from '../../../registry/access.js';
import { userChange } from '../../../registry/announcements.js';
import { agentCountKey } from '../../../registry/layout/keys.js';
import { changedUser, isSeenLately, newUser } from '../../../registry/lifecycle/user-changes.js';
import type { StoredUser, UserRecord } from '../../../registry/model.js';
import type { UserChange } from '../../../registry/port.js';
import { secondSpelling } from '../../../registry/refusals.js';
import { registryFamilies as families } from './families.js';
import { decodeJson, encodeJson, readCount } from './rows.js';

interface UserSettings {
  agentsMax: number | null;
}

export class UserVerbs {
  readonly #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /**
   * The user's 32 bytes. Creates the user if it is new. Every write on behalf of a user goes through here, in
   * any domain: a user exists from its first write.
   */
  ensure(tx: Transaction, user: string): Buffer {
    const key = keyOfUser(tx, user);
    if (tx.get(families.userNames, key) === undefined) tx.put(families.userNames, key, Buffer.from(user));
    if (tx.get(families.users, key) === undefined) {
      writeUser(tx, newUser(key.toString('hex'), tx.nowMs));
      tx.change(userChange('user.created', user));
    }
    return key;
  }

  put(tx: Transaction, user: string, change: UserChange): StoredUser {
    const key = this.ensure(tx, user);
    const before = this.read(tx, key);
    if (before === undefined) throw userNotFound(user);
    const after = changedUser(before, change);
    if (after === before) return before;
    writeUser(tx, after.record);
    if (after.agentsMax === null) tx.delete(families.userSettings, key);
    else
      tx.put(families.userSettings, key, encodeJson({ agentsMax: after.agentsMax } satisfies UserSettings));
    tx.change(userChange('user.updated', user));
    return after;
  }

  /** Writes an imported user over an existing one. */
  restore(
    tx: Transaction,
    user: string,
    record: Omit<UserRecord, 'user_id'>,
    agentsMax: number | null,
  ): void {
    const key = keyOfUser(tx, user);
    tx.put(families.userNames, key, Buffer.from(user));
    writeUser(tx, { ...record, user_id: key.toString('hex') });
    if (agentsMax === null) tx.delete(families.userSettings, key);
    else tx.put(families.userSettings, key, encodeJson({ agentsMax } satisfies UserSettings));
    tx.change(userChange('user.imported', user));
  }

  /** Records a call of the user, unless one was recorded recently. */
  saw(tx: Transaction, user: string): void {
    const stored = tx.get(families.users, keyOfUser(tx, user));
    if (stored === undefined) return;
    const record = decodeUser(stored);
    if (!isSeenLately(record, this.#limits, tx.nowMs)) writeUser(tx, { ...record, last_seen_at: tx.nowMs });
  }

  /** How many agents the user may have. */
  agentsMax(reader: Reader, key: Buffer): number {
    return readSettings(reader, key)?.agentsMax ?? this.#limits.agentsPerUserMax;
  }

  read(reader: Reader, key: Buffer): StoredUser | undefined {
    const stored = reader.get(families.users, key);
    if (stored === undefined) return undefined;
    return {
      record: decodeUser(stored),
      user: reader.get(families.userNames, key)?.toString() ?? key.toString('hex'),
      agents: readCount(reader, agentCountKey(key)),
      agentsMax: readSettings(reader, key)?.agentsMax ?? null,
    };
  }
}

/** The user's 32 bytes. Refuses a second spelling of a known user. */
export function keyOfUser(reader: Reader, user: string): Buffer {
  isKnownUser(reader, user);
  return userKey(user);
}

/**
 * Whether the user exists. Throws for a second spelling of a known user: 64 hex digits that are the hash of a
 * readable id would otherwise give access to that user's data.
 */
export function isKnownUser(reader: Reader, user: string): boolean {
  const known = reader.get(families.userNames, userKey(user))?.toString();
  if (known === undefined || known === user) return known === user;
  throw secondSpelling();
}

function writeUser(tx: Transaction, record: UserRecord): void {
  tx.put(families.users, Buffer.from(record.user_id, 'hex'), encodeUser(record));
}

function readSettings(reader: Reader, key: Buffer): UserSettings | undefined {
  const stored = reader.get(families.userSettings, key);
  return stored === undefined ? undefined : decodeJson<UserSettings>(stored, 'user settings');
}
