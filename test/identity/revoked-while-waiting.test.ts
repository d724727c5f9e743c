/** A token that is revoked while a request with it waits: the request gets nothing, and changes nothing. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { MessagingServer, roomy } from '../messaging/kit.js';
import { sharedHome } from '../servers/shared.js';

const headersOf = (token: string, agent: string) => ({
  authorization: `Bearer ${token}`,
  'stoa-agent': agent,
});

describe.each(['a data directory', 'PostgreSQL'])('on %s', (home) => {
  const operator = operatorCaller();
  let server: MessagingServer;
  let kept: Record<string, string>;
  let revoked: Record<string, string>;
  let revokedId: string;

  beforeAll(async () => {
    const place =
      home === 'PostgreSQL' ? (await sharedHome()).options : { data: '', engine: 'memory' as const };
    server = await MessagingServer.open({ limits: roomy, ...place });
  });
  afterAll(() => server.close());

  beforeEach(async () => {
    const other = await server.stoa.identity.createToken(operator, 'ada', {}, null);
    const { token, token_id } = await server.stoa.identity.createToken(operator, 'ada', {}, null);
    kept = headersOf(other.token, 'builder');
    revoked = headersOf(token, 'scout');
    revokedId = token_id;
  });

  it('a claim takes no task', async () => {
    const add = () =>
      server.ask('POST', '/v1/projects/shop/tasks', { body: { command: 'x' }, headers: kept });
    const claim = (headers: Record<string, string>, body: object) =>
      server.ask('POST', '/v1/projects/shop/tasks/claim', { body, headers });
    await add();
    await claim(kept, {});
    const waiting = claim(revoked, { wait: 20 });
    await expect.poll(() => server.stoa.workspaces.port.waiters.size, { interval: 5 }).toBe(1);
    await server.stoa.identity.revokeTokens(operator, 'ada', revokedId);
    const { json: task } = await add();
    expect((await waiting).status).toBe(401);
    expect((await claim(kept, { wait: 20 })).json).toMatchObject({
      task: { id: task['id'], claimed_by: 'builder' },
    });
  });

  it('a reader of a room sees no message that came after', async () => {
    const room = await server.ask('POST', '/v1/rooms', { body: { name: 'plans' }, headers: kept });
    const place = `/v1/rooms/${String(room.json['id'])}/messages`;
    const post = (text: string) => server.ask('POST', place, { body: { body: text }, headers: kept });
    const { json: first } = await post('before');
    const after = encodeURIComponent(String(first['ts']));
    const waiting = server.ask('GET', `${place}?after=${after}&wait=20`, { headers: revoked });
    await expect.poll(() => server.stoa.messaging.hub.waiting, { interval: 5 }).toBe(1);
    await server.stoa.identity.revokeTokens(operator, 'ada', revokedId);
    await post('a secret');
    const answer = await waiting;
    expect(answer.status).toBe(401);
    expect(answer.text).not.toContain('secret');
  });
});
