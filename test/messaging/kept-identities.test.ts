/** The identity that the server keeps for an agent belongs to that agent, and not to a later one with its name. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { sharedHome } from '../servers/shared.js';
import { MessagingServer, roomy } from './kit.js';

const ids = (messages: { id: string }[]) => messages.map(({ id }) => id);

describe.each(['a data directory', 'PostgreSQL'])('on %s', (home) => {
  let server: MessagingServer;
  let ada: Record<string, string>;

  beforeAll(async () => {
    const place =
      home === 'PostgreSQL' ? (await sharedHome()).options : { data: '', engine: 'memory' as const };
    server = await MessagingServer.open({ limits: { ...roomy, agentsPerUserMax: 100 }, ...place });
    const { token } = await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
    ada = { authorization: `Bearer ${token}` };
  });
  afterAll(() => server.close());

  const ask = (method: string, path: string, body?: object) =>
    server.ask(method, path, { ...(body && { body }), headers: ada });

  /** Posts as an agent and returns the author of the message. */
  async function authorOf(agent: string): Promise<string> {
    const headers = { ...ada, 'stoa-agent': agent };
    const posted = await server.ask('POST', '/v1/rooms/barn/messages', { body: { body: 'hello' }, headers });
    expect(posted.json).toMatchObject({ id: expect.any(String) });
    const { json } = await ask('GET', `/v1/rooms/barn/messages/${posted.json.id}`);
    return json.from;
  }

  async function expectHealthy(): Promise<void> {
    const headers = { authorization: `Bearer ${server.stoa.operatorToken}` };
    const { json } = await server.ask('POST', '/v1/doctor', { body: {}, headers });
    expect(json['findings']).toEqual([]);
  }

  it('a new agent with the name of a deleted one has an identity of its own', async () => {
    const first = await authorOf('scout');
    for (const status of ['stopping', 'stopped']) await ask('PATCH', '/v1/agents/scout', { status });
    expect((await ask('DELETE', '/v1/agents/scout')).status).toBe(204);
    const second = await authorOf('scout');
    expect(second).not.toBe(first);
    expect((await ask('GET', `/v1/identities/${first}`)).json).toMatchObject({ agent_id: null });
    expect((await ask('GET', '/v1/identities/scout')).json).toMatchObject({ id: second });
    await expectHealthy();
  });

  it('a new agent with the former name of another has an identity of its own', async () => {
    const first = await authorOf('clerk');
    expect((await ask('PATCH', '/v1/agents/clerk', { name: 'senior clerk' })).status).toBe(200);
    const second = await authorOf('clerk');
    expect(second).not.toBe(first);
    expect(await authorOf('senior clerk')).toBe(first);
    expect((await ask('GET', '/v1/identities/clerk')).json).toMatchObject({ id: second });
    await expectHealthy();
  });

  it('an agent that gets its own key reads and acknowledges what was sent to it before', async () => {
    const kept = await authorOf('porter');
    const tell = async (to: string, body: string) =>
      (await ask('POST', '/v1/inbox', { to, body })).json['id'] as string;
    const sent = [await tell('porter', 'one'), await tell(kept, 'two')];
    const { json: porter } = await ask('GET', '/v1/agents/porter');
    const key = await server.agent('Porter');
    const linking = { agent_id: porter['agent_id'], write: true, consent: key.consent(porter['agent_id']) };
    expect((await ask('PUT', `/v1/identities/${key.id}/link`, linking)).status).toBe(200);
    // What is sent to the identity that the server keeps goes to the one with the key.
    sent.push(await tell('porter', 'three'), await tell(kept, 'four'));

    const read = async (path: string) => {
      const { json } = await server.ask('GET', path, { headers: key.messageSignature('GET', path) });
      return json;
    };
    expect(ids((await read('/v1/inbox')).items)).toEqual(sent.toReversed());
    expect(ids((await read('/dm')).messages)).toEqual(sent.toReversed());
    expect(ids((await read('/v1/inbox?pending=true')).items)).toEqual(sent);
    expect((await server.stoa.messaging.port.inbox(key.id, { afterMs: 0, limit: 9 })).items).toHaveLength(2);

    const paged: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = await read(`/v1/inbox?limit=1${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      paged.push(...ids(page.items));
      cursor = page.next_cursor;
    }
    expect(paged).toEqual(sent.toReversed());

    const body = JSON.stringify({ ids: sent.slice(1) });
    const headers = key.messageSignature('POST', '/v1/inbox/ack', body);
    const acknowledged = await server.ask('POST', '/v1/inbox/ack', { raw: body, headers });
    expect(acknowledged.json).toEqual({ acknowledged: 3 });
    expect(ids((await read('/v1/inbox?pending=true')).items)).toEqual(sent.slice(0, 1));
    await expectHealthy();
  });

  it('several first messages of an agent at once have one author', async () => {
    const authors = await Promise.all(Array.from({ length: 8 }, () => authorOf('herald')));
    expect(new Set(authors).size).toBe(1);
    await expectHealthy();
  });

  it('a refused first message to an agent by its name makes no identity', async () => {
    const headers = { ...ada, 'stoa-agent': 'warden' };
    await server.ask('PUT', '/v1/data/notes/first', { body: { value: 1 }, headers });
    const message = { to: 'warden', body: 'hello' };
    const long = 'x'.repeat(server.stoa.limits.directBytesMax + 1);
    expect((await ask('POST', '/v1/inbox', { ...message, body: long })).status).toBeGreaterThanOrEqual(400);
    const refused = await ask('POST', '/v1/commit', {
      checks: [{ check: 'data', namespace: 'notes', key: 'first', version: 7 }],
      operations: [{ op: 'dm.send', ...message }],
    });
    expect(refused.json['ok']).toBe(false);
    expect((await ask('GET', '/v1/identities/warden')).status).toBe(404);

    const sent = await ask('POST', '/v1/inbox', message);
    expect(sent.status).toBe(201);
    expect((await ask('GET', '/v1/identities/warden')).json).toMatchObject({ id: sent.json['to'] });
    const inbox = await server.ask('GET', '/v1/inbox', { headers });
    expect(inbox.json['items']).toMatchObject([{ id: sent.json['id'], body: 'hello' }]);
    await expectHealthy();
  });

  it('two agents can send each other their first messages at the same time', async () => {
    const names = ['left', 'right'];
    const heads = names.map((agent) => ({ ...ada, 'stoa-agent': agent }));
    for (const headers of heads)
      await server.ask('PUT', '/v1/data/notes/first', { body: { value: 1 }, headers });
    const sent = await Promise.all(
      heads.map((headers, index) =>
        server.ask('POST', '/v1/inbox', { body: { to: names[1 - index], body: 'hello' }, headers }),
      ),
    );
    expect(sent.map(({ status }) => status)).toEqual([201, 201]);
    for (const [index, headers] of heads.entries()) {
      const { json } = await server.ask('GET', '/v1/inbox', { headers });
      expect(ids(json['items'])).toEqual([sent[1 - index]?.json['id']]);
    }
    await expectHealthy();
  });
});
