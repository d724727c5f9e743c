/**
 * Writes of messaging as steps: complete or not at all, once per key, and never with outdated preparation.
 */
import { kernelOf } from '../kernel-of.js';
import { randomBytes } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { families } from '../../src/homes/directory/messaging/rows.js';
import { type Caller, operatorCaller } from '../../src/core/caller.js';
import { Outdated, writeOne } from '../../src/core/write.js';
import { aicqSignedText, sign, signingKeysOf } from '../../src/identity/signatures.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import type { CommitMessage } from '../../src/messaging/messages/drafts.js';
import { globalRoomId, uuidBytes } from '../../src/messaging/identities/uuid.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';
import { publicRoom } from './public-room.js';

const ada: Caller = { ...operatorCaller('ada', 'planner'), kind: 'user' };
const key = 'a key of sixteen characters';
const unknownId = '01ARZ3NDEKTSV4RRFFQ69G5FAV';
const saying = (body: string, pid = '') => [{ room: 'global' }, () => ({ body, pid }), null] as const;

let stoa: Stoa;
afterEach(() => stoa.close());

async function open(options: Partial<StoaOptions> = {}): Promise<Stoa> {
  stoa = await openStoa({ data: '', engine: 'memory', ...options });
  return stoa;
}

async function said(room = globalRoomId): Promise<string[]> {
  const { items } = await stoa.messaging.port.messages(publicRoom(room), { afterMs: 0, limit: 50 });
  return items.map(({ body }) => body);
}

const seed = Buffer.alloc(32, 7);

/** A message of a commit, signed with an agent's own key. */
async function signedMessage(body: string): Promise<CommitMessage & { op: 'room.post' }> {
  const { secretKey, publicKey } = signingKeysOf(seed);
  const { identity } = await writtenPort(stoa.messaging).register({
    publicKey: publicKey.toString('base64'),
    name: 'signer',
    email: null,
    proven: true,
  });
  const request = JSON.stringify({ body });
  const nonce = randomBytes(16).toString('hex');
  const timestamp = String(Date.now());
  const text = aicqSignedText(Buffer.from(request), nonce, timestamp);
  const signature = sign(secretKey, text).toString('base64');
  return {
    op: 'room.post',
    room: 'global',
    body,
    signed: { agent: identity.id, nonce, timestamp, signature, request },
  };
}

/** Another key, as an import brings it. */
async function replaceRoomKey(room: string, keyHash: string): Promise<void> {
  await kernelOf(stoa).root.transact((tx) =>
    tx.put(families.roomKeys, uuidBytes(room), Buffer.from(keyHash)),
  );
}

it('gives ten repeats under one Idempotency-Key at once one message and one answer', async () => {
  const { messaging } = await open();
  let acted = 0;
  const idempotency = { scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 };
  const answers = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const posting = await messaging.steps.post(ada, ...saying('once'));
      const counted = posting.after(() => (acted += 1));
      return writeOne(messaging.writer, { caller: ada, idempotency }, counted);
    }),
  );
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
  expect(await said()).toEqual(['once']);
  expect(acted).toBe(1);
});

it.each([1, 4])('undoes the whole write when one step is refused, with %i shard(s)', async (shards) => {
  const limits = { messageBytesPerMinuteMax: 'before, taken back, an answer'.length };
  const { messaging, data } = await open({ shards, limits });
  const { steps, writer, port } = messaging;
  await messaging.rooms.post(ada, ...saying('before'));
  let acted = false;
  const posting = (await steps.post(ada, ...saying('taken back'))).after(() => (acted = true));
  const written = writer.write({ caller: ada }, [
    data.steps.set(ada, 'notes', 'k', 1, {}),
    posting,
    await steps.createRoom(ada, { name: 'den', is_private: false, key: '', owner: null }, null),
    await steps.post(ada, ...saying('an answer', unknownId)),
  ]);
  await expect(written).rejects.toThrow('parent message not found');
  expect(await said()).toEqual(['before']);
  // The bytes of the refused messages are free again.
  await messaging.rooms.post(ada, ...saying('x'.repeat('taken back, an answer'.length)));
  expect((await port.publicRooms(10, 0)).total).toBe(1);
  expect(acted).toBe(false);
});

it.each([1, 4])(
  'keeps the nonce of a signed message for a commit that stands, with %i shard(s)',
  async (shards) => {
    const { commit } = await open({ shards });
    const message = await signedMessage('signed');
    const answer = { op: 'room.post' as const, room: 'global', body: 'an answer', pid: unknownId };
    await expect(commit.commit(ada, { operations: [message, answer] })).rejects.toThrow(
      'parent message not found',
    );
    const wrong = [{ check: 'data' as const, namespace: 'notes', key: 'missing', version: 3 }];
    expect(await commit.commit(ada, { checks: wrong, operations: [message] })).toMatchObject({ ok: false });
    expect(await commit.commit(ada, { operations: [message] })).toMatchObject({
      ok: true,
      results: [{ room_id: globalRoomId }],
    });
    await expect(commit.commit(ada, { operations: [message] })).rejects.toThrow('nonce already used');
    expect(await said()).toEqual(['signed']);
  },
);

it('uses up a nonce once, also under concurrent writes', async () => {
  const { messaging } = await open();
  const message = await signedMessage('signed');
  const outcomes = await Promise.allSettled(
    Array.from({ length: 10 }, async () => {
      const { checks, step } = await messaging.steps.postInCommit(ada)(message);
      return writeOne(messaging.writer, { caller: ada, checks }, step);
    }),
  );
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(await said()).toEqual(['signed']);
});

it('refuses X-AICQ signatures in commits where message signatures are required', async () => {
  const { commit } = await open({ messagingSettings: { requireMessageSignatures: true } });
  const message = await signedMessage('signed');
  await expect(commit.commit(ada, { operations: [message] })).rejects.toThrow('requires RFC 9421');
  expect(await said()).toEqual([]);
});

it('checks the room key again if it is replaced while a message is prepared', async () => {
  const { messaging } = await open();
  const room = await messaging.rooms.create(ada, { name: 'den', is_private: true, key, owner: null }, null);
  const post = (read: () => { body: string; pid: string }) =>
    messaging.rooms.post(ada, { room: room.id, key }, read, null);
  await post(() => ({ body: 'before', pid: '' }));
  const replaced: Promise<void>[] = [];
  const late = post(() => {
    if (replaced.length === 0) replaced.push(replaceRoomKey(room.id, `$2b$10$${'x'.repeat(53)}`));
    return { body: 'late', pid: '' };
  });
  await expect(late).rejects.toThrow('invalid room key');
  await Promise.all(replaced);
  expect(await said(room.id)).toEqual(['before']);
});

it('refuses a signature whose key is rotated before its message is written', async () => {
  const { messaging } = await open();
  const message = await signedMessage('late');
  const { checks, step } = await messaging.steps.postInCommit(ada)(message);
  const before = signingKeysOf(seed).publicKey.toString('base64');
  await writtenPort(messaging).rotateKey({
    id: message.signed?.agent ?? '',
    oldPublicKey: before,
    newPublicKey: randomBytes(32).toString('base64'),
    proof: {
      scheme: 'aicq',
      publicKey: before,
      signature: '',
      nonce: '',
      timestampMs: 0,
      request: { base64: '' },
    },
  });
  await expect(writeOne(messaging.writer, { caller: ada, checks }, step)).rejects.toThrow(
    'invalid signature',
  );
  expect(await said()).toEqual([]);
});

it("does not post as an identity that is no longer the caller's kept identity", async () => {
  const stoa = await open();
  const { messaging } = stoa;
  const kernel = kernelOf(stoa);
  // The first message stores the identity.
  await writeOne(messaging.writer, { caller: ada }, await messaging.steps.post(ada, ...saying('first')));
  const posting = await messaging.steps.post(ada, ...saying('late'));
  await stoa.registry.createAgent(ada, { name: 'other' });
  const toOther = { to: 'other', byName: true };
  const { recipient: other } = await messaging.direct.send(ada, toOther, { body: 'hello' }, null);
  await kernel.root.transact((tx) => {
    const rows = [...tx.range(families.keptAgents, {})];
    const kept = rows.find(({ value }) => value.toString().includes(other));
    for (const row of rows) tx.put(families.keptAgents, row.key, kept?.value ?? row.value);
  });
  await expect(writeOne(messaging.writer, { caller: ada }, posting)).rejects.toBeInstanceOf(Outdated);
  expect(await said()).toEqual(['first']);
});
