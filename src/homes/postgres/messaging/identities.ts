/** Identities in PostgreSQL: the seed's `agents`, with keys, links and kept seeds beside it. */
import { isDeepStrictEqual } from 'node:util';
import { Outdated } from '../../../core/write.js';
import { StoaError } from '../../../core/errors.js';
import { refuseMoreKeys } from '../../../messaging/refusals.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Identity, IdentityKey, IdentityLink, Proof } from '../../../messaging/model.js';
import type {
  KeptIdentity,
  KeyRotation,
  NewIdentity,
  ProfileUpdate,
  SealedIdentity,
} from '../../../messaging/port.js';
import { type PostgresSql, type Queryable, query, transaction } from '../connection.js';
import type { Teller } from './news.js';

interface IdentityRow {
  id: string;
  public_key: string;
  name: string | null;
  email: string | null;
  created_ms: string;
  updated_ms: string;
  proven: boolean | null;
  link: string | null;
  kept: boolean;
}

const columns = `a.id, a.public_key, a.name, a.email,
    (extract(epoch FROM a.created_at) * 1000)::bigint AS created_ms, (extract(epoch FROM a.updated_at) * 1000)::bigint AS updated_ms,
    f.proven, f.link, (k.agent_id IS NOT NULL OR coalesce(f.server_kept, FALSE)) AS kept`;
const tables = `agents a LEFT JOIN agent_facts f ON f.agent_id = a.id LEFT JOIN kept_agents k ON k.agent_id = a.id`;
const selected = `SELECT ${columns} FROM ${tables}`;

function identityOf(row: IdentityRow): Identity {
  return {
    id: row.id,
    publicKey: row.public_key,
    name: row.name,
    email: row.email,
    createdAtMs: Number(row.created_ms),
    updatedAtMs: Number(row.updated_ms),
    proven: row.proven ?? false,
    serverKept: row.kept,
    // Only `link` below writes this column.
    link: row.link === null ? null : (JSON.parse(row.link) as IdentityLink),
  };
}

export interface PostgresIdentitiesOptions {
  nowMs: () => number;
  teller: Teller;
  limits: Limits;
}

export class PostgresIdentities {
  readonly #sql: PostgresSql;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #teller: Teller;

  constructor(sql: PostgresSql, { nowMs, teller, limits }: PostgresIdentitiesOptions) {
    this.#sql = sql;
    this.#nowMs = nowMs;
    this.#teller = teller;
    this.#limits = limits;
  }

  async register(input: NewIdentity): Promise<{ identity: Identity; created: boolean }> {
    const { event, ...registered } = await transaction(this.#sql, async (tx) => {
      const known = await this.#byKey(tx, input.publicKey);
      if (known !== undefined) {
        // The signature proves what was only claimed before.
        const isProven = input.proven && !known.proven;
        const identity = isProven ? await this.#update(tx, known.id, { proven: true }) : known;
        return { identity: identity ?? known, created: false, event: isProven ? 'updated' : null } as const;
      }
      const created = await this.#insert(tx, input);
      const identity = await this.#byKey(tx, input.publicKey);
      if (identity === undefined) throw new StoaError('internal', 'A registered key leads to no agent.');
      return { identity, created, event: created ? 'registered' : null } as const;
    });
    if (event !== null) await this.#teller.identity(registered.identity.id, event);
    return registered;
  }

  async keep(made: KeptIdentity): Promise<SealedIdentity> {
    const { owner, publicKey, sealedSeed } = made;
    const { created, ...kept } = await transaction(this.#sql, async (tx) => {
      await query(tx, 'SELECT pg_advisory_xact_lock(hashtext($1))', [owner]);
      const before = await this.kept(owner, tx);
      if (before !== undefined) return { ...before, created: false };
      await this.#insert(tx, made);
      await query(
        tx,
        'INSERT INTO kept_agents (owner, agent_id, sealed_seed) SELECT $1, id, $3 FROM agents WHERE public_key = $2',
        [owner, publicKey, sealedSeed],
      );
      const identity = await this.#byKey(tx, publicKey);
      if (identity === undefined) throw new StoaError('internal', 'A kept key leads to no agent.');
      return { identity, sealedSeed, created: true };
    });
    if (created) await this.#teller.identity(kept.identity.id, 'registered');
    return kept;
  }

  async kept(owner: string, on: Queryable = this.#sql): Promise<SealedIdentity | undefined> {
    const [row] = await query<IdentityRow & { sealed_seed: string }>(
      on,
      `SELECT ${columns}, k.sealed_seed FROM ${tables} WHERE k.owner = $1`,
      [owner],
    );
    return row === undefined ? undefined : { identity: identityOf(row), sealedSeed: row.sealed_seed };
  }

  async resealKept(reseal: (sealedSeed: string, owner: string) => string): Promise<number> {
    let changed = 0;
    for (let after: string | undefined = ''; after !== undefined;) {
      const rows: readonly { owner: string; sealed_seed: string }[] = await query(
        this.#sql,
        'SELECT owner, sealed_seed FROM kept_agents WHERE owner > $1 ORDER BY owner LIMIT $2',
        [after, this.#limits.workspaceStepRowsMax],
      );
      for (const { owner, sealed_seed } of rows) {
        const resealed = reseal(sealed_seed, owner);
        if (resealed === sealed_seed) continue;
        await query(this.#sql, 'UPDATE kept_agents SET sealed_seed = $2 WHERE owner = $1', [owner, resealed]);
        changed += 1;
      }
      after = rows.at(-1)?.owner;
    }
    return changed;
  }

  /** Of many at once with one key, the first inserts and the others find it: the unique constraint decides. */
  async #insert(tx: Queryable, { publicKey, name, email, proven }: NewIdentity): Promise<boolean> {
    const nowMs = String(this.#nowMs());
    const inserted = await query<{ id: string }>(
      tx,
      `INSERT INTO agents (public_key, name, email, created_at, updated_at)
       VALUES ($1, $2, $3, to_timestamp($4::double precision / 1000), to_timestamp($4::double precision / 1000))
       ON CONFLICT (public_key) DO NOTHING RETURNING id`,
      [publicKey, name, email, nowMs],
    );
    const id = inserted[0]?.id;
    if (id === undefined) return false;
    await query(tx, 'INSERT INTO agent_keys (public_key, agent_id, from_ms) VALUES ($1, $2, $3)', [
      publicKey,
      id,
      nowMs,
    ]);
    if (proven) await query(tx, 'INSERT INTO agent_facts (agent_id, proven) VALUES ($1, TRUE)', [id]);
    return true;
  }

  /** A key that an agent once had still leads to it. */
  async #byKey(tx: Queryable, publicKey: string): Promise<Identity | undefined> {
    const [row] = await query<IdentityRow>(
      tx,
      `${selected} WHERE a.id = (SELECT agent_id FROM agent_keys WHERE public_key = $1)`,
      [publicKey],
    );
    return row === undefined ? undefined : identityOf(row);
  }

  async get(id: string, on: Queryable = this.#sql): Promise<Identity | undefined> {
    const [row] = await query<IdentityRow>(on, `${selected} WHERE a.id = $1`, [id]);
    return row === undefined ? undefined : identityOf(row);
  }

  async many(ids: readonly string[]): Promise<Map<string, Identity>> {
    if (ids.length === 0) return new Map();
    const rows = await query<IdentityRow>(this.#sql, `${selected} WHERE a.id = ANY($1::uuid[])`, [ids]);
    return new Map(rows.map((row) => [row.id, identityOf(row)]));
  }

  async updateProfile(id: string, profile: ProfileUpdate): Promise<Identity | undefined> {
    const updated = await transaction(this.#sql, (tx) => this.#update(tx, id, profile));
    if (updated !== undefined) await this.#teller.identity(id, 'updated');
    return updated;
  }

  async #update(tx: Queryable, id: string, profile: ProfileUpdate): Promise<Identity | undefined> {
    await query(
      tx,
      `UPDATE agents SET name = CASE WHEN $2 THEN $3 ELSE name END, email = CASE WHEN $4 THEN $5 ELSE email END, updated_at = to_timestamp($6::double precision / 1000) WHERE id = $1`,
      [
        id,
        profile.name !== undefined,
        profile.name ?? null,
        profile.email !== undefined,
        profile.email ?? null,
        String(this.#nowMs()),
      ],
    );
    if (profile.proven === true) {
      await query(
        tx,
        'INSERT INTO agent_facts (agent_id, proven) VALUES ($1, TRUE) ON CONFLICT (agent_id) DO UPDATE SET proven = TRUE',
        [id],
      );
    }
    return this.get(id, tx);
  }

  async rotateKey(rotation: KeyRotation): Promise<'rotated' | 'taken' | 'stale'> {
    const outcome = await this.#rotate(rotation);
    if (outcome === 'rotated') await this.#teller.identity(rotation.id, 'rotated');
    return outcome;
  }

  #rotate({ id, oldPublicKey, newPublicKey, proof }: KeyRotation): Promise<'rotated' | 'taken' | 'stale'> {
    return transaction(this.#sql, async (tx) => {
      const [agent] = await query<{ public_key: string }>(
        tx,
        'SELECT public_key FROM agents WHERE id = $1 FOR UPDATE',
        [id],
      );
      if (agent?.public_key !== oldPublicKey) return 'stale';
      const [known] = await query<{ keys: number }>(
        tx,
        'SELECT count(*)::int AS keys FROM agent_keys WHERE agent_id = $1',
        [id],
      );
      if ((known?.keys ?? 0) >= this.#limits.identityKeysMax) throw refuseMoreKeys(this.#limits);
      const inserted = await query<{ public_key: string }>(
        tx,
        `INSERT INTO agent_keys (public_key, agent_id, from_ms, proof)
         SELECT $1, $2, greatest($3, (SELECT coalesce(max(from_ms), 0) + 1 FROM agent_keys WHERE agent_id = $2)), $4::text::json ON CONFLICT DO NOTHING RETURNING public_key`,
        [newPublicKey, id, String(this.#nowMs()), JSON.stringify(proof)],
      );
      if (inserted.length === 0) return 'taken';
      await query(
        tx,
        'UPDATE agents SET public_key = $2, updated_at = to_timestamp($3::double precision / 1000) WHERE id = $1',
        [id, newPublicKey, String(this.#nowMs())],
      );
      return 'rotated';
    });
  }

  async keys(id: string): Promise<IdentityKey[]> {
    const rows = await query<{ public_key: string; from_ms: string; proof: string | null }>(
      this.#sql,
      'SELECT public_key, from_ms, proof FROM agent_keys WHERE agent_id = $1 ORDER BY from_ms',
      [id],
    );
    return rows.map(({ public_key, from_ms, proof }, index) => ({
      publicKey: public_key,
      fromMs: Number(from_ms),
      untilMs: rows[index + 1] === undefined ? null : Number(rows[index + 1]?.from_ms),
      // Only `#rotate` above writes this column.
      proof: proof === null ? null : (JSON.parse(proof) as Proof),
    }));
  }

  async link(before: Identity, link: IdentityLink | null): Promise<Identity> {
    const { id } = before;
    const linked = await transaction(this.#sql, async (tx) => {
      await query(tx, 'SELECT 1 FROM agents WHERE id = $1 FOR UPDATE', [id]);
      const current = await this.get(id, tx);
      if (current?.publicKey !== before.publicKey || !isDeepStrictEqual(current.link, before.link))
        throw new Outdated(`The identity ${id}`);
      await query(
        tx,
        'INSERT INTO agent_facts (agent_id, link) VALUES ($1, $2::text::json) ON CONFLICT (agent_id) DO UPDATE SET link = excluded.link',
        [id, link === null ? null : JSON.stringify(link)],
      );
      return { ...current, link };
    });
    await this.#teller.identity(id, link === null ? 'unlinked' : 'linked');
    return linked;
  }
}
