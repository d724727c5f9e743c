/** A claim that finds no task writes nothing. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { MessagingServer, roomy } from '../messaging/kit.js';
import { sharedHome } from '../servers/shared.js';

describe.each(['a data directory', 'PostgreSQL'])('on %s', (home) => {
  let server: MessagingServer;
  let ada: Record<string, string>;

  beforeAll(async () => {
    const place =
      home === 'PostgreSQL' ? (await sharedHome()).options : { data: '', engine: 'memory' as const };
    server = await MessagingServer.open({ limits: roomy, ...place });
    const { token } = await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
    ada = { authorization: `Bearer ${token}` };
  });
  afterAll(() => server.close());

  const claim = (agent: string, body: object = {}) =>
    server.ask('POST', '/v1/projects/shop/tasks/claim', { body, headers: { ...ada, 'stoa-agent': agent } });
  const agents = async (): Promise<string[]> => {
    const { json } = await server.ask('GET', '/v1/agents', { headers: ada });
    return json['items'].map(({ name }: { name: string }) => name);
  };

  it('a worker is made by its first task, not by claims that find none', async () => {
    const { json: task } = await server.ask('POST', '/v1/projects/shop/tasks', {
      body: { command: 'Write the migration', labels: ['gpu'] },
      headers: ada,
    });
    const none = { without_labels: ['gpu'] };
    for (const body of [none, { ...none, wait: 1 }]) expect((await claim('bulider', body)).status).toBe(204);
    expect(await agents()).toEqual([]);

    expect((await claim('builder')).json).toMatchObject({ task: { id: task['id'], claimed_by: 'builder' } });
    expect((await claim('bulider')).status).toBe(204);
    expect(await agents()).toEqual(['builder']);
    // A worker that is known stays present through claims that find nothing.
    expect((await claim('builder')).status).toBe(204);
    const { json: builder } = await server.ask('GET', '/v1/agents/builder', { headers: ada });
    expect(builder).toMatchObject({ status: 'running', presence: 'live' });
  });
});
