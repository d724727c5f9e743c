import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AgentKeys, Stoa, isAuthentic, sealDirect } from '../../src/client/index.js';
import { operatorCaller } from '../../src/core/caller.js';
import { MessagingServer } from '../messaging/kit.js';
import directVectors from '../vectors/messaging-dm.json' with { type: 'json' };
import signingVectors from '../vectors/messaging-signing.json' with { type: 'json' };

let server: MessagingServer;
let stoa: Stoa;

beforeAll(async () => {
  server = await MessagingServer.open();
  stoa = new Stoa({ url: server.url });
});
afterAll(() => server.close());

async function newAgent(name: string) {
  const agent = stoa.agent(await AgentKeys.generate());
  await agent.register({ name });
  return agent;
}

describe('the keys of an agent', () => {
  it.each(signingVectors.vectors)('derive and sign as the published vector $nonce', async (vector) => {
    const keys = await AgentKeys.fromSeed(vector.seed);
    expect(keys.publicKey).toBe(vector.public_key);
    expect(await keys.sign(vector.signed_text)).toBe(vector.signature);
  });

  it.each(directVectors.vectors)('open the published direct message "$plaintext"', async (vector) => {
    const keys = await AgentKeys.fromSeed(vector.recipient_seed);
    expect(keys.publicKey).toBe(vector.recipient_public_key);
    expect(await keys.openDirect(vector.ciphertext)).toBe(vector.plaintext);
    const altered = Buffer.from(vector.ciphertext, 'base64');
    altered[60] = (altered[60] as number) ^ 1;
    await expect(keys.openDirect(altered.toString('base64'))).rejects.toThrow('cannot be decrypted');
  });

  it('encrypt messages that only the recipient can decrypt', async () => {
    const [ann, bob] = [await AgentKeys.generate(), await AgentKeys.generate()];
    for (const text of ['', 'short', 'é日本🎉'.repeat(100)]) {
      const sealed = await sealDirect(ann.publicKey, text);
      expect(await ann.openDirect(sealed)).toBe(text);
      await expect(bob.openDirect(sealed)).rejects.toThrow('cannot be decrypted');
    }
  });

  it('refuse invalid keys and messages', async () => {
    const ann = await AgentKeys.generate();
    const notAPoint = Buffer.alloc(32, 0xff).toString('base64');
    for (const key of ['', 'AAAA', notAPoint])
      await expect(sealDirect(key, 'text')).rejects.toMatchObject({ code: 'invalid_request' });
    // A key of small order would make the shared secret all zeros, which everybody knows.
    const smallOrder = Buffer.concat([Buffer.alloc(32), Buffer.alloc(12 + 16)]).toString('base64');
    for (const message of ['', 'AAAA', smallOrder])
      await expect(ann.openDirect(message)).rejects.toMatchObject({ code: 'invalid_request' });
  });
});

describe('an agent', () => {
  it('registers once, posts to rooms, and its messages can be verified', async () => {
    const ann = await newAgent('Ann');
    const { id } = await ann.rooms.create({ name: 'planning', public: true });
    const room = ann.room(id);
    const first = await room.post('hello');
    await room.post('and again', { replyTo: first.id });
    const page = await room.read({ verify: true });
    expect(page.items.map(({ body }) => body)).toEqual(['and again', 'hello']);
    expect(await Promise.all(page.items.map(isAuthentic))).toEqual([true, true]);
    const [newest] = page.items;
    if (newest === undefined) throw new Error('There is no message.');
    expect(await isAuthentic({ ...newest, body: 'never said' })).toBe(false);
    // JSON can contain half of a surrogate pair, which is not a character.
    await room.post('half: \uD800');
    const [half] = (await room.read({ verify: true, limit: 1 })).items;
    expect(half).toMatchObject({ body: 'half: \uFFFD' });
    expect(half !== undefined && (await isAuthentic(half))).toBe(true);
    await room.delete(half?.id ?? '');
    expect((await room.thread(first.id)).items).toHaveLength(2);
    await room.delete(first.id);
    expect((await room.read()).items).toHaveLength(1);
  });

  it('registers although the first answer is lost', async () => {
    let lost = 0;
    const lossy: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init);
      if ((lost += 1) > 1) return answer;
      throw new TypeError('the connection broke');
    };
    const agent = new Stoa({ url: server.url, fetch: lossy, retryDelayMs: 5 }).agent(
      await AgentKeys.generate(),
    );
    const id = await agent.register({ name: 'Ann' });
    expect([lost, (await agent.identities.get(id)).id]).toEqual([2, id]);
  });

  it("gets the server's error sentences", async () => {
    const ann = await newAgent('Ann');
    const { id } = await ann.rooms.create({
      name: 'den',
      public: true,
      key: 'a key of sixteen or more',
    });
    await expect(ann.room(id).read()).rejects.toMatchObject({
      code: 'forbidden',
      message: 'The room is private, and the request has no key.',
    });
    await ann.room(id, 'a key of sixteen or more').post('inside');
    await expect(stoa.agent(await AgentKeys.generate()).direct.read()).rejects.toMatchObject({
      code: 'unauthenticated',
    });
  });

  it('writes direct messages that the server cannot read', async () => {
    const [ann, bob] = [await newAgent('Ann'), await newAgent('Bob')];
    const { id } = await ann.direct.send(bob.id, 'meet at the north gate');
    const { items: messages } = await bob.direct.read({ pending: true });
    expect(messages).toMatchObject([{ id, from: ann.id, text: 'meet at the north gate' }]);
    expect(messages[0]?.body).not.toContain('north');
    expect(await bob.direct.acknowledge([id])).toBe(1);
    expect((await bob.direct.read({ pending: true })).items).toEqual([]);
  });

  it('follows a room and its inbox', async () => {
    const [ann, bob] = [await newAgent('Ann'), await newAgent('Bob')];
    const { id } = await ann.rooms.create({ name: 'live', public: true });
    const stop = new AbortController();
    const room = bob.room(id).stream({ signal: stop.signal, after: '1970-01-01T00:00:00.001Z' });
    const inbox = bob.direct.stream({ signal: stop.signal });
    const next = [room.next(), inbox.next()] as const;
    await ann.room(id).post('first');
    await ann.direct.send(bob.id, 'private');
    expect((await next[0]).value).toMatchObject({ body: 'first' });
    expect((await next[1]).value).toMatchObject({ text: 'private' });
    stop.abort();
  });

  it('keeps its id after a key rotation', async () => {
    const ann = await newAgent('Ann');
    const { id } = ann;
    await ann.rotate(await AgentKeys.generate());
    await ann.updateProfile({ name: 'Anna' });
    expect(await ann.identities.get(id)).toMatchObject({ id, name: 'Anna' });
  });

  it("reaches its user's data once the user has linked it, within its scopes", async () => {
    const ann = await newAgent('Ann');
    await expect(ann.data('notes').get('key')).rejects.toMatchObject({ code: 'forbidden' });
    const ada = operatorCaller('ada');
    const { agent_id } = await server.stoa.registry.createAgent(ada, { name: 'scout' });
    const { token } = await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
    const { agents } = new Stoa({ url: server.url, token });
    expect(
      await agents.link(agent_id.toUpperCase(), await ann.consent(agent_id.toUpperCase()), {
        namespaces: ['notes'],
      }),
    ).toMatchObject({ agent_id, user: 'ada' });
    expect((await agents.listIdentities(agent_id)).items).toMatchObject([
      { identity: ann.id, namespaces: ['notes'] },
    ]);
    await ann.data('notes').set('key', { said: 'hello' });
    expect(await ann.data('notes').get('key')).toEqual({ said: 'hello' });
    expect(await server.stoa.data.getEntry(ada, 'notes', 'key')).toMatchObject({ createdByAgent: 'scout' });
    await expect(ann.data('other').get('key')).rejects.toMatchObject({ code: 'forbidden' });
    await agents.unlink(ann.id);
    await expect(ann.data('notes').get('key')).rejects.toMatchObject({ code: 'forbidden' });
  });
});
