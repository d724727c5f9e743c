/** Identities in PostgreSQL: the seed's table `agents`, and tables for keys, links and encrypted seeds. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import { Outdated } from '../../../core/write.js';
import { StoaError } from '../../../core/errors.js';
import { refuseMoreKeys } from '../../../messaging/refusals.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type IdentityEvent, identityChanged } from '../../../messaging/changes.js';
import type { Identity, IdentityKey, IdentityLink, Proof } from '../../../messaging/model.js';
import { ownerOfUser } from '../../../messaging/identities/kept-owner.js';
import { agentNameOf } from '../../../messaging/names.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { unknownAgent } from '../../../registry/refusals.js';
import type {
  KeptFor,
  KeptIdentity,
  KeyRotation,
  NewIdentity,
  ProfileUpdate,
  SealedIdentity,
} from '../../../messaging/port.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';

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
    (extract(epoch FROM a.created_at) * 1000)::bigint AS created_ms,
    (extract(epoch FROM a.updated_at) * 1000)::bigint AS updated_ms,
    f.proven, f.link, (k.agent_id IS NOT NULL OR coalesce(f.server_kept, FALSE)) AS kept`;
const tables = `agents a LEFT JOIN messaging.agent_facts f ON f.agent_id = a.id
  LEFT JOIN messaging.kept_agents k ON k.agent_id = a.id`;
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
    // Only `PostgresIdentities.link` and imports write this column.
    link: row.link === null ? null : (JSON.parse(row.link) as IdentityLink),
  };
}

export async function findIdentity(sql: Queryable, id: string): Promise<Identity | undefined> {
  const [row] = await query<IdentityRow>(sql, `${selected} WHERE a.id = $1`, [id]);
  return row === undefined ? undefined : identityOf(row);
}

/** The agents of the registry, by user and name. */
export interface KnownAgents {
  agentNamed(user: string, name: string): Promise<string | undefined>;
  /** Inside a write. With `acts`, the agent is the one that writes, and it is made if it is new. */
  agentIdIn(work: Work, agent: ActingAgent, acts: boolean): Promise<string | undefined>;
}

export interface PostgresIdentitiesOptions {
  agents: KnownAgents;
  nowMs: () => number;
  /** Called after a change, so that other servers drop the identity from their caches. */
  onChanged: (id: string) => Promise<void>;
  limits: Limits;
}

export class PostgresIdentities {
  readonly #sql: PostgresSql;
  readonly #agents: KnownAgents;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #onChanged: (id: string) => Promise<void>;

  constructor(sql: PostgresSql, { agents, nowMs, onChanged, limits }: PostgresIdentitiesOptions) {
    this.#agents = agents;
    this.#sql = sql;
    this.#nowMs = nowMs;
    this.#onChanged = onChanged;
    this.#limits = limits;
  }

  register(input: NewIdentity): PostgresStep<{ identity: Identity; created: boolean }> {
    return new PostgresStep([], async (work) => {
      const known = await this.#byKey(work.sql, input.publicKey);
      if (known !== undefined) {
        // The key was registered without a signature before, and this request has one.
        const isProven = input.proven && !known.proven;
        const identity = isProven ? await this.#update(work.sql, known.id, { proven: true }) : known;
        if (isProven) this.#announce(work, known.id, 'updated');
        return { identity: identity ?? known, created: false };
      }
      const created = await this.#insert(work.sql, input);
      const identity = await this.#byKey(work.sql, input.publicKey);
      if (identity === undefined) throw new StoaError('internal', 'The registered key has no agent.');
      if (created) this.#announce(work, identity.id, 'registered');
      return { identity, created };
    });
  }

  /** In one order for all writes: two agents can send each other their first messages at the same time. */
  async keepAll(work: Work, kept: readonly KeptIdentity[]): Promise<void> {
    const ordered = kept.toSorted((a, b) => compareCodePoints(nameOf(a), nameOf(b)));
    for (const one of ordered) {
      const { identity } = await this.#keepIn(work, one);
      if (identity.id !== one.id) throw new Outdated('The identity that the server keeps for the caller');
    }
  }

  async #keepIn(work: Work, made: KeptIdentity): Promise<SealedIdentity> {
    const { id, keptFor, sealedSeed } = made;
    const { user, agent } = keptFor;
    const agentId = agent === null ? null : await this.#agents.agentIdIn(work, { user, agent }, made.acts);
    if (agentId === undefined) throw unknownAgent(agent ?? '', []);
    const owner = agentId ?? ownerOfUser(user);
    await work.rows(lockKeySql('keptIdentity'), [owner]);
    const before = await this.#keptBy(owner, work.sql);
    if (before !== undefined) return before;
    // False: it was stored for an agent that was deleted or renamed since.
    if (!(await this.#insert(work.sql, made, id)))
      throw new Outdated('The identity that the server keeps for the caller');
    await work.rows('INSERT INTO messaging.kept_agents (owner, agent_id, sealed_seed) VALUES ($1, $2, $3)', [
      owner,
      id,
      sealedSeed,
    ]);
    await this.#setLink(work, id, {
      user,
      agentId,
      agentName: agent,
      write: true,
      namespaces: null,
      linkedAtMs: this.#nowMs(),
    });
    const identity = await this.get(id, work.sql);
    if (identity === undefined) throw new StoaError('internal', 'The stored identity was not found.');
    this.#announce(work, id, 'registered');
    return { identity, owner, sealedSeed };
  }

  /** An agent was renamed: its kept identity and the links of its other identities get the new name. */
  async renameAgent(work: Work, agentId: string, name: string, linked: readonly string[]): Promise<void> {
    const kept = await this.#keptBy(agentId, work.sql);
    if (kept !== undefined) await this.#update(work.sql, kept.identity.id, { name: agentNameOf(name) });
    const ids = kept === undefined ? linked : [kept.identity.id, ...linked];
    const found = await this.#many(ids, work.sql);
    for (const { id, link } of found.values()) {
      if (link?.agentId !== agentId) continue;
      await this.#setLink(work, id, { ...link, agentName: name });
      this.#announce(work, id, 'updated');
    }
  }

  /**
   * The agent was removed. Its messages keep their author, an identity that no longer belongs to an agent.
   */
  async forgetKept(work: Work, agentId: string): Promise<void> {
    const [gone] = await work.rows<{ agent_id: string }>(
      'DELETE FROM messaging.kept_agents WHERE owner = $1 RETURNING agent_id',
      [agentId],
    );
    if (gone === undefined) return;
    await work.rows('UPDATE messaging.agent_facts SET link = NULL, server_kept = TRUE WHERE agent_id = $1', [
      gone.agent_id,
    ]);
    this.#announce(work, gone.agent_id, 'unlinked');
  }

  async #setLink(work: Work, id: string, link: IdentityLink | null): Promise<void> {
    await work.rows(
      `INSERT INTO messaging.agent_facts (agent_id, link) VALUES ($1, $2::text::json)
        ON CONFLICT (agent_id) DO UPDATE SET link = excluded.link`,
      [id, link === null ? null : JSON.stringify(link)],
    );
  }

  #announce(work: Work, id: string, event: IdentityEvent): void {
    work.announce(identityChanged(id, event));
    work.afterCommit(() => this.#onChanged(id));
  }

  async kept({ user, agent }: KeptFor): Promise<SealedIdentity | undefined> {
    const owner = agent === null ? ownerOfUser(user) : await this.#agents.agentNamed(user, agent);
    return owner === undefined ? undefined : this.#keptBy(owner, this.#sql);
  }

  async #keptBy(owner: string, on: Queryable): Promise<SealedIdentity | undefined> {
    const [row] = await query<IdentityRow & { sealed_seed: string }>(
      on,
      `SELECT ${columns}, k.sealed_seed FROM ${tables} WHERE k.owner = $1`,
      [owner],
    );
    return row === undefined ? undefined : { identity: identityOf(row), owner, sealedSeed: row.sealed_seed };
  }

  async resealKept(reseal: (sealedSeed: string, id: string) => string): Promise<number> {
    let changed = 0;
    for (let after: string | undefined = ''; after !== undefined;) {
      const rows: readonly { owner: string; agent_id: string; sealed_seed: string }[] = await query(
        this.#sql,
        'SELECT owner, agent_id, sealed_seed FROM messaging.kept_agents WHERE owner > $1 ORDER BY owner LIMIT $2',
        [after, this.#limits.workspaceStepRowsMax],
      );
      for (const { agent_id, sealed_seed } of rows) {
        const resealed = reseal(sealed_seed, agent_id);
        if (resealed === sealed_seed) continue;
        // By the identity: the agent may have been deleted and made again since, with another seed.
        await query(this.#sql, 'UPDATE messaging.kept_agents SET sealed_seed = $2 WHERE agent_id = $1', [
          agent_id,
          resealed,
        ]);
        changed += 1;
      }
      after = rows.at(-1)?.owner;
    }
    return changed;
  }

  /**
   * Returns false if the key exists. Of concurrent calls with one key, the unique constraint lets one insert.
   */
  async #insert(
    tx: Queryable,
    { publicKey, name, email, proven }: NewIdentity,
    newId: string = randomUUID(),
  ): Promise<boolean> {
    const nowMs = String(this.#nowMs());
    const inserted = await query<{ id: string }>(
      tx,
      `INSERT INTO agents (id, public_key, name, email, created_at, updated_at)
       VALUES ($5, $1, $2, $3,
         to_timestamp($4::double precision / 1000), to_timestamp($4::double precision / 1000))
       ON CONFLICT (public_key) DO NOTHING RETURNING id`,
      [publicKey, name, email, nowMs, newId],
    );
    const id = inserted[0]?.id;
    if (id === undefined) return false;
    await query(tx, 'INSERT INTO messaging.agent_keys (public_key, agent_id, from_ms) VALUES ($1, $2, $3)', [
      publicKey,
      id,
      nowMs,
    ]);
    if (proven)
      await query(tx, 'INSERT INTO messaging.agent_facts (agent_id, proven) VALUES ($1, TRUE)', [id]);
    return true;
  }

  /** Also finds an agent by a key that it has replaced. */
  async #byKey(tx: Queryable, publicKey: string): Promise<Identity | undefined> {
    const [row] = await query<IdentityRow>(
      tx,
      `${selected} WHERE a.id = coalesce(
          (SELECT agent_id FROM messaging.agent_keys WHERE public_key = $1),
          (SELECT id FROM agents WHERE public_key = $1))`,
      [publicKey],
    );
    return row === undefined ? undefined : identityOf(row);
  }

  get(id: string, on: Queryable = this.#sql): Promise<Identity | undefined> {
    return findIdentity(on, id);
  }

  many(ids: readonly string[]): Promise<Map<string, Identity>> {
    return this.#many(ids, this.#sql);
  }

  async #many(ids: readonly string[], on: Queryable): Promise<Map<string, Identity>> {
    if (ids.length === 0) return new Map();
    const rows = await query<IdentityRow>(on, `${selected} WHERE a.id = ANY($1::uuid[])`, [ids]);
    return new Map(rows.map((row) => [row.id, identityOf(row)]));
  }

  updateProfile(id: string, profile: ProfileUpdate): PostgresStep<Identity | undefined> {
    return new PostgresStep([], async (work) => {
      const updated = await this.#update(work.sql, id, profile);
      if (updated !== undefined) this.#announce(work, id, 'updated');
      return updated;
    });
  }

  async #update(tx: Queryable, id: string, profile: ProfileUpdate): Promise<Identity | undefined> {
    await query(
      tx,
      `UPDATE agents SET name = CASE WHEN $2 THEN $3 ELSE name END,
          email = CASE WHEN $4 THEN $5 ELSE email END,
          updated_at = to_timestamp($6::double precision / 1000) WHERE id = $1`,
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
        `INSERT INTO messaging.agent_facts (agent_id, proven) VALUES ($1, TRUE)
          ON CONFLICT (agent_id) DO UPDATE SET proven = TRUE`,
        [id],
      );
    }
    return this.get(id, tx);
  }

  rotateKey(rotation: KeyRotation): PostgresStep<'rotated' | 'taken' | 'stale'> {
    return new PostgresStep([], async (work) => {
      const outcome = await this.#rotate(work, rotation);
      if (outcome === 'rotated') this.#announce(work, rotation.id, 'rotated');
      return outcome;
    });
  }

  async #rotate(
    work: Work,
    { id, oldPublicKey, newPublicKey, proof }: KeyRotation,
  ): Promise<'rotated' | 'taken' | 'stale'> {
    const [agent] = await work.rows<{ public_key: string }>(
      'SELECT public_key FROM agents WHERE id = $1 FOR UPDATE',
      [id],
    );
    if (agent?.public_key !== oldPublicKey) return 'stale';
    const [known] = await work.rows<{ keys: number }>(
      'SELECT count(*)::int AS keys FROM messaging.agent_keys WHERE agent_id = $1',
      [id],
    );
    if ((known?.keys ?? 0) >= this.#limits.identityKeysMax) throw refuseMoreKeys(this.#limits);
    const inserted = await work.rows<{ public_key: string }>(
      `INSERT INTO messaging.agent_keys (public_key, agent_id, from_ms, proof)
       SELECT $1, $2, greatest($3, (
           SELECT coalesce(max(from_ms), 0) + 1 FROM messaging.agent_keys WHERE agent_id = $2)),
         $4::text::json
       ON CONFLICT DO NOTHING RETURNING public_key`,
      [newPublicKey, id, String(this.#nowMs()), JSON.stringify(proof)],
    );
    if (inserted.length === 0) return 'taken';
    await work.rows(
      `UPDATE agents SET public_key = $2, updated_at = to_timestamp($3::double precision / 1000)
        WHERE id = $1`,
      [id, newPublicKey, String(this.#nowMs())],
    );
    return 'rotated';
  }

  async keys(id: string): Promise<IdentityKey[]> {
    const rows = await query<{ public_key: string; from_ms: string; proof: string | null }>(
      this.#sql,
      'SELECT public_key, from_ms, proof FROM messaging.agent_keys WHERE agent_id = $1 ORDER BY from_ms',
      [id],
    );
    return rows.map(({ public_key, from_ms, proof }, index) => ({
      publicKey: public_key,
      fromMs: Number(from_ms),
      untilMs: rows[index + 1] === undefined ? null : Number(rows[index + 1]?.from_ms),
      // Only `#rotate` and imports write this column.
      proof: proof === null ? null : (JSON.parse(proof) as Proof),
    }));
  }

  link(before: Identity, link: IdentityLink | null): PostgresStep<Identity> {
    const { id } = before;
    return new PostgresStep([], async (work) => {
      await work.rows('SELECT 1 FROM agents WHERE id = $1 FOR UPDATE', [id]);
      const current = await this.get(id, work.sql);
      if (current?.publicKey !== before.publicKey || !isDeepStrictEqual(current.link, before.link))
        throw new Outdated(`The identity ${id}`);
      await this.#setLink(work, id, link);
      this.#announce(work, id, link === null ? 'unlinked' : 'linked');
      return { ...current, link };
    });
  }
}

function nameOf({ keptFor: { user, agent } }: KeptIdentity): string {
  return `${user}\n${agent ?? ''}`;
}
