import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AgentClient, AgentKeys, Stoa } from '../../src/client/index.js';
import { signedFetch } from '../../src/client/transport/signed-fetch.js';
import { Running } from '../server/running.js';
import { TestClient, generations, type Generation } from './client.js';
import { eventually } from '../until.js';

const listTools = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

let running: Running;
beforeAll(async () => {
  running = await Running.start({ limits: { registrationsPerHourMax: 100 } });
});
afterAll(() => running.stop());

interface Signer {
  keys: AgentKeys;
  id: string;
  /** The record in the registry that the identity is linked to. */
  agentId: string;
  signed: typeof fetch;
}

/** An identity with its own keys; linked to alice by default. */
async function newSigner(
  name: string,
  link: { write?: boolean; namespaces?: string[] } | null = {},
): Promise<Signer> {
  const keys = await AgentKeys.generate();
  const agent = new Stoa({ url: running.url }).agent(keys);
  const id = await agent.register({ name });
  const { agents } = new Stoa({ url: running.url, token: running.alice });
  const { agent_id: agentId } = await agents.create({ name });
  if (link !== null) await agents.link(agentId, await agent.consent(agentId), link);
  return {
    keys,
    id,
    agentId,
    signed: signedFetch(
      () => keys,
      () => id,
      fetch,
    ),
  };
}

async function connect({ signed }: Signer, generation: Generation): Promise<TestClient> {
  const client: Client = TestClient.of(generation);
  await client.connect(
    new StreamableHTTPClientTransport(new URL('/mcp', running.url), {
      fetch: (input, init) => signed(String(input), init),
    }),
  );
  return new TestClient(client);
}

function post(
  signed: typeof fetch,
  body: unknown = listTools,
  headers: Record<string, string> = {},
): Promise<Response> {
  return signed(`${running.url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

test.each(generations)(
  "an agent that signs its requests remembers as itself, in its user's store (%s)",
  async (generation) => {
    const scout = await newSigner(`scout-${generation}`);
    const mcp = await connect(scout, generation);
    const key = `signed-${generation}`;
    await mcp.ok('remember', { key, value: 'proven' });
    expect((await mcp.ok('recall', { key })).items[0]).toMatchObject({
      value: 'proven',
      createdByAgent: `scout-${generation}`,
    });
    expect(await new Stoa({ url: running.url, token: running.alice }).data().get(key)).toBe('proven');
    await mcp.ok('post', { room: `signed-${generation}`, text: 'hello' });
    expect((await mcp.ok('agents')).agents.map(({ agent_id }: { agent_id: string }) => agent_id)).toEqual([
      scout.agentId,
    ]);
    await mcp.close();
  },
);

test('a session and its subscriptions end when the rights of its agent change', async () => {
  const scout = await newSigner('narrowed', { namespaces: ['open', 'closed'] });
  const initialize = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
  };
  const headers = { accept: 'application/json, text/event-stream' };
  const opened = await post(scout.signed, initialize, headers);
  const session = { ...headers, 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
  expect(
    (
      await post(
        scout.signed,
        { jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'stoa://data/closed/k' } },
        session,
      )
    ).status,
  ).toBe(200);
  const agent = new Stoa({ url: running.url }).agent(scout.keys, scout.id);
  await new Stoa({ url: running.url, token: running.alice }).agents.link(
    scout.agentId,
    await agent.consent(scout.agentId),
    { namespaces: ['open'] },
  );
  expect((await post(scout.signed, listTools, session)).status).toBe(404);
  expect((await post(scout.signed, initialize, headers)).status).toBe(200);
});

test('a token cannot use the name of a signed agent or act for another user', async () => {
  const scout = await newSigner('named');
  expect((await post(scout.signed, listTools, { 'stoa-agent': 'somebody-else' })).status).toBe(403);
  expect((await post(scout.signed, listTools, { 'stoa-user': 'bob' })).status).toBe(403);
});

test('the scopes of a link apply to the tools too', async () => {
  const reader = await connect(await newSigner('reading', { write: false }), 'modern');
  expect((await reader.call('remember', { key: 'k', value: 1 })).value.code).toBe('forbidden');
  const narrow = await connect(await newSigner('narrow', { namespaces: ['open'] }), 'modern');
  await narrow.ok('remember', { key: 'k', value: 1, namespace: 'open' });
  expect((await narrow.call('recall', { key: 'k' })).value.code).toBe('forbidden');
  await Promise.all([reader.close(), narrow.close()]);
});

async function youOf(client: TestClient): Promise<unknown> {
  const answer: object = await client.ok('agents');
  return 'you' in answer ? answer.you : undefined;
}

test('an agent with a key is kept present by its own signature alone', async () => {
  const { agents } = new Stoa({ url: running.url, token: running.alice });
  const [scout, keyed] = [await newSigner('heartbeats'), await newSigner('keyed')];
  const { agent_id: plain } = await agents.create({ name: 'plain' });
  const presences = async () => [
    (await agents.get(keyed.agentId)).presence,
    (await agents.get(plain)).presence,
  ];
  const before = await presences();
  const mcp = await connect(scout, 'legacy');
  for (const action of ['heartbeat', 'register'])
    for (const name of ['keyed', 'plain'])
      expect((await mcp.call('agents', { action, name })).value.code).toBe('forbidden');
  expect((await mcp.ok('agents', { action: 'heartbeat' })).agents[0].name).toBe('heartbeats');

  const bearer = await TestClient.connect(running.url, running.alice, 'legacy');
  const you = await youOf(bearer);
  for (const action of ['heartbeat', 'register'])
    expect((await bearer.call('agents', { action, name: 'keyed' })).value.code).toBe('forbidden');
  expect(await youOf(bearer)).toBe(you);
  expect(await presences()).toEqual(before);
  await Promise.all([mcp.close(), bearer.close()]);
});

/** An agent of alice gets a key of its own, and signs from then on. */
async function giveKey(name: string): Promise<AgentClient> {
  const keys = await AgentKeys.generate();
  const agent = new Stoa({ url: running.url }).agent(keys);
  await agent.register({ name });
  const { agents } = new Stoa({ url: running.url, token: running.alice });
  const { agent_id } = await agents.get(name);
  await agents.link(agent_id, await agent.consent(agent_id));
  return agent;
}

test('a session whose agent gets a key of its own continues under another name, and the agent keeps its claim', async () => {
  const mcp = await TestClient.connect(running.url, running.alice, 'legacy');
  const you = String(await youOf(mcp));
  await mcp.ok('tasks', { action: 'create', project: 'keyed-later', command: 'build' });
  const claim = await mcp.ok('work', { action: 'claim', project: 'keyed-later' });
  const task = claim.task.id;
  const signed = await giveKey(you);

  const report = { action: 'complete', task, fence: claim.fence };
  const refused = (await mcp.call('work', report)).value;
  expect(refused).toMatchObject({ code: 'forbidden', details: { agent: you } });
  expect(refused.fix).toContain('call agents with action "register"');
  await expect(mcp.client.readResource({ uri: 'stoa://data/default/any' })).rejects.toThrow('its own key');
  expect((await mcp.call('agents', { action: 'register', name: you })).value.code).toBe('forbidden');

  const answer: object = await mcp.ok('agents', { action: 'register', name: 'renamed-session' });
  expect(answer).toMatchObject({ you: 'renamed-session' });
  await mcp.ok('remember', { key: 'after-the-key', value: 1 });
  expect((await mcp.ok('recall', { key: 'after-the-key' })).items[0].createdByAgent).toBe('renamed-session');
  expect((await mcp.call('work', report)).value).toMatchObject({
    code: 'forbidden',
    details: { holder: you },
  });
  expect((await signed.tasks.complete(task, { fence: claim.fence })).status).toBe('completed');
  await mcp.close();
});

test('a client keeps its name if the registration of another one is refused', async () => {
  const mcp = await TestClient.connect(running.url, running.alice, 'legacy');
  const you = await youOf(mcp);
  const labels = { role: 'x'.repeat(10_000) };
  const refused = await mcp.call('agents', { action: 'register', name: 'refused', labels });
  expect(refused.value.code).toBe('invalid_request');
  expect(await youOf(mcp)).toBe(you);
  expect((await mcp.ok('agents', { name: 'refused' })).agents).toEqual([]);
  await mcp.close();
});

test('subscriptions of a signed agent come from the feed', async () => {
  const scout = await newSigner('subscribed');
  const mcp = await connect(scout, 'legacy');
  const told: string[] = [];
  mcp.client.setNotificationHandler(
    'notifications/resources/updated',
    ({ params }) => void told.push(params.uri),
  );
  await mcp.client.subscribeResource({ uri: 'stoa://data/default/watched-by-signature' });
  await new Stoa({ url: running.url, token: running.alice }).data().set('watched-by-signature', 1);
  // A stream that opens after the subscription announces the resource once more.
  await eventually(() => expect(told[0]).toBe('stoa://data/default/watched-by-signature'));
  await mcp.close();
});

test('a request without a valid signature of a linked identity is refused', async () => {
  const scout = await newSigner('guarded');
  const stranger = await newSigner('stranger', null);
  expect((await post(scout.signed)).status).toBe(200);
  expect((await post(stranger.signed)).status).toBe(403);
  const forged = signedFetch(
    () => stranger.keys,
    () => scout.id,
    fetch,
  );
  expect((await post(forged)).status).toBe(401);
  // An attacker on the network: another body, another address, the same request again.
  const tampered = signedFetch(
    () => scout.keys,
    () => scout.id,
    (input, init) => fetch(input, { ...init, body: JSON.stringify({ ...listTools, id: 2 }) }),
  );
  expect((await post(tampered)).status).toBe(401);
  const elsewhere = signedFetch(
    () => scout.keys,
    () => scout.id,
    (input, init) => fetch(String(input).replace('127.0.0.1', 'localhost'), init),
  );
  expect((await post(elsewhere)).status).toBe(401);
  let first: [string, RequestInit] | undefined;
  const kept = signedFetch(
    () => scout.keys,
    () => scout.id,
    (input, init = {}) => {
      first = [String(input), init];
      return fetch(input, init);
    },
  );
  expect((await post(kept)).status).toBe(200);
  expect((await fetch(...(first as [string, RequestInit]))).status).toBe(401);
  // The scheme of the messaging routes does not cover the address, and opens nothing here.
  const aicq = {
    'x-aicq-agent': scout.id,
    'x-aicq-nonce': crypto.randomUUID(),
    'x-aicq-timestamp': String(Date.now()),
    'x-aicq-signature': await scout.keys.sign('anything'),
  };
  expect((await post(fetch, listTools, aicq)).status).toBe(401);
  expect((await post(scout.signed, listTools, { origin: 'https://evil.example' })).status).toBe(403);
});
