/** The same limits on AICQ's routes, /v1, commits and MCP. */
import { kernelOf } from '../kernel-of.js';
import { randomUUID } from 'node:crypto';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { families } from '../../src/homes/directory/messaging/rows.js';
import { operatorCaller } from '../../src/core/caller.js';
import { generations, TestClient } from '../mcp/client.js';
import { type Agent, MessagingServer, roomy } from './kit.js';

const secret = 'a key of sixteen or more';

let server: MessagingServer;
let user: string;
let reader: string;

beforeAll(async () => {
  server = await MessagingServer.open({
    limits: { ...roomy, roomKeyGuessesPerMinuteMax: 3, streamHeartbeatSeconds: 1, agentsPerUserMax: 100 },
    messagingSettings: { trustedProxies: ['127.0.0.1'] },
  });
  user = await tokenOf('ada', true);
  reader = await tokenOf('ada', false);
});
afterAll(() => server.close());

async function tokenOf(name: string, write: boolean): Promise<string> {
  return (await server.stoa.identity.createToken(operatorCaller(), name, { scopes: { write } }, null)).token;
}

const bearer = (token: string, more: Record<string, string> = {}) => ({
  authorization: `Bearer ${token}`,
  ...more,
});
const from = (address: string) => ({ 'x-forwarded-for': address });

/** How many rows messaging has in all its families but the windows and nonces of requests. */
function rows(): number {
  const counted = Object.values(families).filter(
    (family) => family !== families.nonces && family !== families.rateWindows,
  );
  return counted.reduce((sum, family) => sum + [...kernelOf(server.stoa).root.range(family, {})].length, 0);
}

/** Ann's identity, linked to ada's agent with that name, which is created unless it exists. */
async function linked(name: string, write = true): Promise<Agent> {
  const ann = await server.agent('Ann');
  const { registry } = server.stoa;
  const [known] = (await registry.listAgents(operatorCaller('ada'), { name })).items;
  const agentId = (known ?? (await registry.createAgent(operatorCaller('ada'), { name }))).agent_id;
  const { status } = await server.ask('PUT', `/v1/identities/${ann.id}/link`, {
    body: { agent_id: agentId, write, consent: ann.consent(agentId) },
    headers: bearer(user),
  });
  expect(status).toBe(200);
  return ann;
}

describe('a read', () => {
  it('creates no rows for the agent that it names', async () => {
    const before = rows();
    for (const token of [reader, user])
      for (const path of ['/dm', '/dm?pending=1', '/dm?after=0&wait=1', '/room/global', '/find?q=word']) {
        const headers = bearer(token, { 'stoa-agent': `new-${randomUUID()}` });
        expect([path, (await server.ask('GET', path, { headers })).status]).toEqual([path, 200]);
      }
    for (const generation of generations) {
      const mcp = await TestClient.connect(server.url, reader, generation, {
        'stoa-agent': `new-${randomUUID()}`,
      });
      expect((await mcp.ok('read', { inbox: true })).messages).toEqual([]);
      await mcp.close();
    }
    expect(rows()).toBe(before);
  });

  it('finds the inbox once the agent has written', async () => {
    const headers = bearer(user, { 'stoa-agent': `writer-${randomUUID()}` });
    expect((await server.ask('GET', '/dm', { headers })).json.messages).toEqual([]);
    const { json } = await server.ask('POST', '/room/global', { body: { body: 'hello' }, headers });
    const { from: id } = (await server.ask('GET', `/room/global/${json.id}`)).json;
    const ann = await server.agent('Ann');
    expect((await ann.ask('POST', `/dm/${id}`, { body: { body: 'hi' } })).status).toBe(201);
    expect((await server.ask('GET', '/dm', { headers })).json.messages).toHaveLength(1);
  });
});

describe('a blocked address', () => {
  it('is refused on every route except the one that lifts the block', async () => {
    const address = '203.0.113.50';
    await server.stoa.messaging.port.block({ address, reason: 'noise', expiresAtMs: Date.now() + 60_000 });
    const headers = bearer(user, from(address));
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    for (const [method, path, body] of [
      ['GET', '/room/global', undefined],
      ['GET', '/v1/data', undefined],
      ['POST', '/v1/commit', { operations: [{ op: 'room.post', room: 'global', body: 'x' }] }],
      ['POST', '/mcp', call],
    ] as const) {
      const request = { headers, ...(body !== undefined && { body }) };
      expect([path, (await server.ask(method, path, request)).status]).toEqual([path, 403]);
    }
    const lift = { headers: bearer(server.stoa.operatorToken, from(address)) };
    expect((await server.ask('DELETE', `/v1/blocks?ip=${address}`, lift)).status).toBe(204);
    expect((await server.ask('GET', '/v1/data', { headers })).status).toBe(200);
  });

  it('is refused at once, also if it was allowed a moment before', async () => {
    const address = '203.0.113.51';
    const headers = bearer(user, from(address));
    expect((await server.ask('GET', '/v1/data', { headers })).status).toBe(200);
    await server.stoa.messaging.port.block({ address, reason: 'noise', expiresAtMs: Date.now() + 60_000 });
    expect((await server.ask('GET', '/v1/data', { headers })).status).toBe(403);
  });
});

describe('wrong room keys', () => {
  it('are counted together over HTTP, commit and MCP', async () => {
    const room = await server.room(await server.agent('Ann'), `den-${randomUUID().slice(0, 8)}`, secret);
    const token = await tokenOf('eve', true);
    const address = '203.0.113.60';
    const wrong = 'a wrong key of sixteen';
    const headers = bearer(token, from(address));
    const http = (key: string, more: Record<string, string>) =>
      server.ask('GET', `/room/${room}`, { headers: { ...more, 'x-aicq-room-key': key } });
    const commit = (key: string, more = headers) =>
      server.ask('POST', '/v1/commit', {
        body: { operations: [{ op: 'room.post', room, body: 'x', key }] },
        headers: more,
      });
    expect((await http(wrong, from(address))).status).toBe(403);
    // Programs compare the reason, not the sentence.
    expect(await commit(wrong)).toMatchObject({
      status: 403,
      json: { code: 'forbidden', details: { reason: 'roomKeyWrong' } },
    });
    const mcp = await TestClient.connect(server.url, token, 'modern', from(address));
    expect((await mcp.call('read', { room, key: wrong })).value.code).toBe('forbidden');
    // Three are allowed in a minute. From here on every attempt is refused, over HTTP, commit and MCP.
    for (const key of [wrong, secret]) {
      expect((await http(key, from(address))).status).toBe(429);
      expect((await commit(key)).status).toBe(429);
      expect((await mcp.call('read', { room, key })).value.code).toBe('rate_limited');
    }
    await mcp.close();
    // The caller is counted too: another address does not help once its own guesses have reached the limit.
    expect((await commit(wrong, bearer(token, from('203.0.113.61')))).status).toBe(403);
    expect((await commit(wrong, bearer(token, from('203.0.113.62')))).status).toBe(429);
  });
});

describe('a token under the name of an agent that has its own key', () => {
  it('is refused on HTTP, commit and MCP', async () => {
    const name = `signed-${randomUUID().slice(0, 8)}`;
    const named = bearer(user, { 'stoa-agent': name });
    expect((await server.ask('PUT', '/v1/data/notes/k', { body: { value: 1 }, headers: named })).status).toBe(
      201,
    );
    const ann = await linked(name);
    const { json: workspace } = await server.ask('POST', '/v1/workspaces', {
      body: { name: 'home' },
      headers: bearer(user),
    });
    const { json: project } = await server.ask('POST', `/v1/workspaces/${workspace.id}/projects`, {
      body: { name: 'house', path: '/house' },
      headers: bearer(user),
    });
    const claim = `/v1/projects/${project.id}/tasks/claim`;
    const claimed = [{ op: 'task.claim', project_id: project.id, agent_id: name }];
    for (const [method, path, body, headers] of [
      ['PUT', '/v1/data/notes/k', { value: 2 }, named],
      ['GET', '/v1/data/notes/k', undefined, named],
      ['POST', '/room/global', { body: 'x' }, named],
      ['GET', '/dm', undefined, named],
      ['POST', claim, {}, named],
      ['POST', claim, { agent_id: name }, bearer(user)],
      ['POST', '/v1/commit', { operations: claimed }, bearer(user)],
      ['POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' }, named],
    ] as const) {
      const { status, text } = await server.ask(method, path, {
        headers,
        ...(body !== undefined && { body }),
      });
      expect([path, status]).toEqual([path, 403]);
      expect(text).toContain('signs with its own key');
    }
    const own = JSON.stringify({ value: 3 });
    const signed = await server.ask('PUT', '/v1/data/notes/signed', {
      raw: own,
      headers: ann.messageSignature('PUT', '/v1/data/notes/signed', own),
    });
    expect(signed.status).toBe(201);
    const { json: stored } = await server.ask('GET', '/v1/data/notes/signed', { headers: bearer(user) });
    expect(stored.createdByAgent).toBe(name);
    // An MCP program with that name cannot act as the agent either.
    const program = TestClient.of('modern', name);
    await program.connect(
      new StreamableHTTPClientTransport(new URL('/mcp', server.url), {
        requestInit: { headers: bearer(user) },
      }),
    );
    const mcp = new TestClient(program);
    expect((await mcp.call('remember', { key: 'k', value: 1 })).value.code).toBe('forbidden');
    await mcp.close();
    // Its letters go to the agent itself.
    const other = await TestClient.connect(server.url, user, 'modern', { 'stoa-agent': 'writer' });
    expect(await other.ok('post', { to: name, text: 'hi' })).toMatchObject({ to_id: ann.id });
    await other.close();
  });
});

describe('an identity whose link is only for reading', () => {
  it('writes nothing of its user, and keeps its messages, its profile and its key', async () => {
    const ann = await linked(`reader-${randomUUID().slice(0, 8)}`, false);
    const value = JSON.stringify({ value: 1 });
    const put = await server.ask('PUT', '/v1/data/notes/own', {
      raw: value,
      headers: ann.messageSignature('PUT', '/v1/data/notes/own', value),
    });
    expect(put.status).toBe(403);
    const room = await server.room(ann);
    const { id } = await ann.post(room, 'mine');
    expect((await ann.ask('POST', `/dm/${ann.id}`, { body: { body: 'x' } })).status).toBe(201);
    const letter = (await ann.ask('GET', '/dm')).json.messages[0].id;
    expect((await ann.ask('POST', '/dm/ack', { body: { ids: [letter] } })).json).toEqual({ acknowledged: 1 });
    expect((await ann.ask('DELETE', `/room/${room}/${id}`)).status).toBe(204);
    expect((await ann.ask('PATCH', `/who/${ann.id}`, { body: { name: 'Anna' } })).json.name).toBe('Anna');
    const path = `/v1/identities/${ann.id}/link`;
    expect((await server.ask('DELETE', path, { headers: ann.messageSignature('DELETE', path) })).status).toBe(
      204,
    );
    expect((await ann.ask('GET', '/dm')).status).toBe(200);
    const other = await linked(`other-${randomUUID().slice(0, 8)}`, false);
    const theirs = `/v1/identities/${other.id}/link`;
    expect(
      (await server.ask('DELETE', theirs, { headers: ann.messageSignature('DELETE', theirs) })).status,
    ).toBe(403);
  });
});
