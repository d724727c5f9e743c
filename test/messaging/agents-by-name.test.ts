/** An agent is named by its name or its id: as an identity, as a caller and in a search. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { operatorCaller } from '../../src/core/caller.js';
import { MessagingServer, roomy } from './kit.js';

let server: MessagingServer;
let ada: Record<string, string>;
let bea: Record<string, string>;
let scoutId: string;
let first: string;

beforeAll(async () => {
  server = await MessagingServer.open({ limits: { ...roomy, agentsPerUserMax: 100 } });
  [ada, bea] = [await bearerOf('ada'), await bearerOf('bea')];
  first = await post('the harvest begins', { ...ada, 'stoa-agent': 'scout' });
  scoutId = (await server.ask('GET', '/v1/agents/scout', { headers: ada })).json.agent_id;
});
afterAll(() => server.close());

async function bearerOf(user: string): Promise<Record<string, string>> {
  const { token } = await server.stoa.identity.createToken(operatorCaller(), user, {}, null);
  return { authorization: `Bearer ${token}` };
}

async function post(body: string, headers: Record<string, string>): Promise<string> {
  const { status, json } = await server.ask('POST', '/v1/rooms/barn/messages', { body: { body }, headers });
  expect(status).toBe(201);
  return json.id;
}

const identity = (reference: string, headers: Record<string, string>) =>
  server.ask('GET', `/v1/identities/${reference}`, { headers });

const search = (agent: string, headers = ada) =>
  server.ask('GET', `/v1/find?q=harvest&agent=${encodeURIComponent(agent)}`, { headers });

/** The answer to a room that does not exist. */
const refusal = async (headers: Record<string, string>): Promise<string> =>
  (await server.ask('GET', '/v1/rooms/bran', { headers })).json.detail;

describe('the identity of an agent', () => {
  it('is found by the name and the id of the agent and by its own id', async () => {
    const { status, json } = await identity('scout', ada);
    expect(status).toBe(200);
    expect(json).toMatchObject({ name: 'scout', server_kept: true, agent_id: scoutId, proven: 'member' });
    expect((await identity(scoutId, ada)).json).toEqual(json);
    expect((await identity(json.id, ada)).json).toEqual(json);
    const keys = await server.ask('GET', '/v1/identities/scout/keys', { headers: ada });
    expect(keys.json).toMatchObject({ id: json.id, keys: [{ public_key: json.public_key }] });
  });

  it('is found by other users only by its own id, without the agent', async () => {
    const { id } = (await identity('scout', ada)).json;
    for (const reference of ['scout', scoutId]) expect((await identity(reference, bea)).status).toBe(404);
    expect((await identity(id, bea)).json).toMatchObject({ agent_id: null, proven: 'linked' });
  });

  it('needs no link for an identity that signs', async () => {
    const ann = new Stoa({ url: server.url }).agent(await AgentKeys.generate());
    const id = await ann.register({ name: 'Ann' });
    expect(await ann.profiles.get(id)).toMatchObject({
      name: 'Ann',
      server_kept: false,
      agent_id: null,
      proven: 'outside',
    });
    expect((await ann.profiles.listKeys(id)).keys).toHaveLength(1);
    await expect(ann.profiles.get('scout')).rejects.toMatchObject({ code: 'not_found' });
  });

  it('is not made by a look, and an unknown name is refused with a similar one', async () => {
    await server.ask('PUT', '/v1/data/notes/first', {
      body: { value: 1 },
      headers: { ...ada, 'stoa-agent': 'mute' },
    });
    for (let look = 0; look < 2; look += 1)
      expect((await identity('mute', ada)).json).toMatchObject({
        status: 404,
        detail: 'The agent "mute" has no identity yet.',
      });
    const { status, json } = await identity('scuot', ada);
    expect([status, json.detail]).toEqual([404, expect.stringContaining('Did you mean "scout"?')]);
  });
});

describe('the Stoa-Agent header', () => {
  it('takes the id of an agent of the user', async () => {
    const id = await post('by id', { ...ada, 'stoa-agent': scoutId.toUpperCase() });
    const { json } = await server.ask('GET', `/v1/rooms/barn/messages/${id}`, { headers: ada });
    expect(json.from).toBe((await identity('scout', ada)).json.id);
  });

  it('refuses the id of an agent of another user', async () => {
    const write = { body: { value: 1 }, headers: { ...bea, 'stoa-agent': scoutId } };
    expect((await server.ask('PUT', '/v1/data/notes/foreign', write)).status).toBe(404);
    const operator = { authorization: `Bearer ${server.stoa.operatorToken}`, 'stoa-agent': scoutId };
    expect((await server.ask('GET', '/v1/data/notes/first', { headers: operator })).status).toBe(404);
  });
});

describe('a search', () => {
  it('finds the messages of an agent by its name, its id and its identity', async () => {
    await post('harvest of another', { ...ada, 'stoa-agent': 'other' });
    const { id } = (await identity('scout', ada)).json;
    for (const agent of ['scout', scoutId, id])
      expect((await search(agent)).json.items.map(({ id: found }) => found)).toEqual([first]);
    expect((await search('scout', bea)).json.items).toEqual([]);
  });

  it.each(['x'.repeat(5_000), 'a\0b', '0'.repeat(64)])(
    'refuses an agent that cannot be: %j',
    async (agent) => {
      expect([400, 404]).toContain((await search(agent)).status);
    },
  );
});

it('an unknown room is refused with a similar name of the user, and of no other user', async () => {
  expect(await refusal(ada)).toBe('Unknown room "bran". Did you mean "barn"?');
  expect(await refusal(bea)).toBe('Unknown room "bran".');
});
