/** Signed messages and private rooms in commits on PostgreSQL. */
import { randomUUID } from 'node:crypto';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import type { CommitInput } from '../../../../src/commit/schemas.js';
import type { Caller } from '../../../../src/core/caller.js';
import { aicqSignedText, sign, signingKeysOf } from '../../../../src/identity/signatures.js';
import type { Stoa } from '../../../../src/index.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { publicRoom } from '../../../messaging/public-room.js';
import { beforeEach, describe, expect, it } from 'vitest';
import { ada, saidIn, useServers } from './fixture.js';

const { open } = useServers();

/** The first insert into the table fails: at once, or when its transaction commits. */
async function failFirst(
  url: string,
  table: string,
  at: 'at once' | 'at the commit',
  code: string,
): Promise<void> {
  const database = await openPostgres(new URL(url), { connectionsMax: 1 });
  const trigger = at === 'at once' ? 'TRIGGER' : 'CONSTRAINT TRIGGER';
  const deferred = at === 'at once' ? '' : 'DEFERRABLE INITIALLY DEFERRED';
  try {
    await query(database, 'CREATE SEQUENCE attempts');
    await query(
      database,
      `CREATE FUNCTION refuse_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('attempts') = 1 THEN RAISE 'refused' USING ERRCODE = '${code}'; END IF;
        RETURN NULL; END $$`,
    );
    await query(
      database,
      `CREATE ${trigger} refuse_first AFTER INSERT ON ${table} ${deferred}
        FOR EACH ROW EXECUTE FUNCTION refuse_first()`,
    );
  } finally {
    await database.end();
  }
}

describe('signed and private messages of a commit in PostgreSQL', () => {
  let stoa: Stoa;
  let url: string;
  const commit = (input: CommitInput, caller = ada) => stoa.commit.commit(caller, input);

  beforeEach(async () => {
    url = (await sharedPostgres()).url;
    stoa = await open({ postgres: url });
  });

  it('refuses private rooms without their key, and accepts the signature of an agent', async () => {
    const token: Caller = { ...ada, kind: 'user' };
    const room = await stoa.messaging.rooms.create(
      token,
      { name: 'secret', is_private: true, key: 'a key of sixteen characters', owner: null },
      null,
    );
    const post = (key?: string) =>
      commit(
        {
          operations: [
            { op: 'room.post', room: room.id, body: 'psst', ...(key !== undefined && { key }) },
            { op: 'data.increment', key: 'n' },
          ],
        },
        token,
      );
    await expect(post()).rejects.toMatchObject({ code: 'forbidden' });
    expect((await post('a key of sixteen characters')).ok).toBe(true);
    const { secretKey, publicKey } = signingKeysOf(Buffer.alloc(32, 7));
    const { identity } = await writtenPort(stoa.messaging).register({
      publicKey: publicKey.toString('base64'),
      name: 'signer',
      email: null,
      proven: true,
    });
    const request = JSON.stringify({ body: 'signed by me' });
    const [nonce, timestamp] = [randomUUID(), String(Date.now())];
    const signature = sign(secretKey, aicqSignedText(Buffer.from(request), nonce, timestamp)).toString(
      'base64',
    );
    const operation = {
      op: 'room.post' as const,
      room: 'global',
      body: 'signed by me',
      signed: { agent: identity.id, nonce, timestamp, signature, request },
    };
    expect((await commit({ operations: [operation, { op: 'data.increment', key: 'n' }] })).ok).toBe(true);
    expect(
      (await stoa.messaging.port.messages(publicRoom(globalRoomId), { beforeMs: null, limit: 1 })).items,
    ).toMatchObject([{ from: identity.id, serverSigned: false, proof: { signature } }]);
    await expect(commit({ operations: [operation, { op: 'data.increment', key: 'n' }] })).rejects.toThrow(
      'nonce already used',
    );
    expect(await stoa.data.get(ada, 'default', 'n')).toBe(2);
  });

  describe('the nonce of a signed message', () => {
    let identityId: string;
    const { secretKey, publicKey } = signingKeysOf(Buffer.alloc(32, 9));

    beforeEach(async () => {
      const { identity } = await writtenPort(stoa.messaging).register({
        publicKey: publicKey.toString('base64'),
        name: 'signer',
        email: null,
        proven: true,
      });
      identityId = identity.id;
    });

    function signedPost(body: string) {
      const request = JSON.stringify({ body });
      const [nonce, timestamp] = [randomUUID(), String(Date.now())];
      const signature = sign(secretKey, aicqSignedText(Buffer.from(request), nonce, timestamp));
      const signed = {
        agent: identityId,
        nonce,
        timestamp,
        signature: signature.toString('base64'),
        request,
      };
      return { op: 'room.post' as const, room: 'global', body, signed };
    }

    it('is free again after a commit that was refused', async () => {
      const post = signedPost('once');
      const count = { op: 'data.increment' as const, key: 'n' };
      const { agent_id } = await stoa.registry.createAgent(ada, { name: 'worker' });
      const { lease } = await stoa.registry.heartbeat(ada, agent_id, { holder: 'first' });
      await stoa.registry.releaseLease(ada, agent_id);
      const late: Caller = { ...ada, kind: 'user', agentId: agent_id, fence: lease.fence };
      await expect(commit({ operations: [count, post] }, late)).rejects.toMatchObject({ code: 'fenced' });
      const checks = [{ check: 'data' as const, key: 'n', version: 5 }];
      expect(await commit({ checks, operations: [count, post] })).toMatchObject({ ok: false });
      const used = signedPost('used before');
      expect(await commit({ operations: [count, used] })).toMatchObject({ ok: true });
      const other = signedPost('twice');
      await expect(commit({ operations: [post, other, other, count] })).rejects.toThrow('nonce already used');
      expect(await commit({ operations: [count, other, post] })).toMatchObject({ ok: true });
      expect(await saidIn(stoa)).toEqual(['used before', 'twice', 'once']);
      expect(await stoa.data.get(ada, 'default', 'n')).toBe(2);
      await expect(commit({ operations: [post] })).rejects.toThrow('nonce already used');
    });

    it.each([
      ['at once', '57014', 'backend_unavailable'],
      ['at the commit', 'P0001', 'engine'],
    ] as const)('is free again after a commit whose last statement fails %s', async (at, code, error) => {
      await failFirst(url, 'feed.incoming', at, code);
      const operations = [{ op: 'data.increment' as const, key: 'n' }, signedPost('once')];
      await expect(commit({ operations })).rejects.toMatchObject({ code: error });
      expect(await commit({ operations })).toMatchObject({ ok: true });
      expect(await saidIn(stoa)).toEqual(['once']);
      expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
    });

    it('can be used by the retry after a conflict in the database', async () => {
      await failFirst(url, 'commit_outbox', 'at the commit', '40001');
      const outcome = await commit({ operations: [{ op: 'data.increment', key: 'n' }, signedPost('once')] });
      expect(outcome).toMatchObject({ ok: true });
      expect(await saidIn(stoa)).toEqual(['once']);
      expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
    });
  });
});
