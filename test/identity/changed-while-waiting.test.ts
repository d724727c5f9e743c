/**
 * A signed agent that loses its key or its link while its request waits, and an agent that gets a key of its
 * own while a token waits in its name: the request gets nothing, and changes nothing.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { rotationText } from '../../src/identity/signatures.js';
import { Agent, type Answer, MessagingServer, roomy } from '../messaging/kit.js';
import { sharedHome } from '../servers/shared.js';

const ada = operatorCaller('ada');

const call = (tool: string, input: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: tool, arguments: input },
});

describe.each(['a data directory', 'PostgreSQL'])('on %s', (home) => {
  let server: MessagingServer;
  let token: Record<string, string>;
  let signer: Agent;
  let agentId: string;
  let name: string;

  beforeAll(async () => {
    const place =
      home === 'PostgreSQL' ? (await sharedHome()).options : { data: '', engine: 'memory' as const };
    server = await MessagingServer.open({ limits: { ...roomy, agentsPerUserMax: 1_000 }, ...place });
    const made = await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
    token = { authorization: `Bearer ${made.token}`, 'stoa-agent': 'builder' };
  });
  afterAll(() => server.close());

  async function asToken(method: string, path: string, body?: object): Promise<Answer> {
    const answer = await server.ask(method, path, { body, headers: token });
    expect([answer.status, answer.text]).toEqual([expect.toSatisfy((status) => status < 300), answer.text]);
    return answer;
  }

  function asSigner(method: string, path: string, body?: object): Promise<Answer> {
    const raw = body === undefined ? '' : JSON.stringify(body);
    return server.ask(method, path, {
      ...(body !== undefined && { raw }),
      headers: { accept: '*/*', ...signer.messageSignature(method, path, raw) },
    });
  }

  const link = (more: object = {}) =>
    asToken('PUT', `/v1/identities/${signer.id}/link`, {
      agent_id: agentId,
      consent: signer.consent(agentId),
      ...more,
    });

  beforeEach(async () => {
    name = `scout-${randomUUID()}`;
    signer = await server.agent(name);
    agentId = (await server.stoa.registry.createAgent(ada, { name })).agent_id;
    await link();
  });

  const losses: Record<string, () => Promise<unknown>> = {
    'its link is removed': () => asToken('DELETE', `/v1/identities/${signer.id}/link`),
    'its link may only read': () => link({ write: false }),
    'its agent is deleted': async () => {
      await server.stoa.registry.updateAgentStatus(ada, agentId, 'error');
      return asToken('DELETE', `/v1/agents/${agentId}`);
    },
    'its agent is renamed': () => asToken('PATCH', `/v1/agents/${agentId}`, { name: randomUUID().slice(1) }),
    'its key is replaced': async () => {
      const next = new Agent(server);
      const proof = next.sign(rotationText(signer.id, signer.publicKey, next.publicKey));
      const body = { public_key: next.publicKey, proof };
      expect((await signer.ask('POST', `/who/${signer.id}/key`, { body })).status).toBe(200);
    },
  };

  describe.each(Object.keys(losses))('when %s', (loss) => {
    const lose = () => (losses[loss] as () => Promise<unknown>)();

    it('a reader that waits sees no message that came after', async () => {
      const { json: room } = await asToken('POST', '/v1/rooms', { name: randomUUID().slice(1) });
      const place = `/v1/rooms/${String(room['id'])}/messages`;
      const { json: first } = await asToken('POST', place, { body: 'before' });
      const ts = String(first['ts']);
      const waiting = [
        asSigner('GET', `${place}?after=${encodeURIComponent(ts)}&wait=20`),
        asSigner('GET', `/room/${String(room['id'])}?after=${Date.parse(ts)}&wait=20`),
        asSigner('POST', '/mcp', call('read', { room: room['id'], after: ts, wait_seconds: 20 })),
      ];
      const { hub } = server.stoa.messaging;
      await expect.poll(() => hub.waiting, { interval: 5 }).toBe(waiting.length);
      await lose();
      await asToken('POST', place, { body: 'a secret' });
      const [page, aicq, mcp] = await Promise.all(waiting);
      expect([page?.status, aicq?.status, mcp?.json.result.isError]).toEqual([401, 401, true]);
      for (const answer of [page, aicq, mcp]) expect(answer?.text).not.toContain('secret');
    });

    it('a claim that waits takes no task', async () => {
      const project = `shop-${randomUUID()}`;
      await asToken('POST', `/v1/projects/${project}/tasks`, { command: 'x' });
      await asToken('POST', `/v1/projects/${project}/tasks/claim`, {});
      const claim = asSigner('POST', `/v1/projects/${project}/tasks/claim`, { wait: 20 });
      await expect.poll(() => server.stoa.workspaces.port.waiters.size, { interval: 5 }).toBe(1);
      await lose();
      const { json: task } = await asToken('POST', `/v1/projects/${project}/tasks`, { command: 'x' });
      expect((await claim).status).toBe(401);
      expect((await asToken('GET', `/v1/tasks/${String(task['id'])}`)).json).toMatchObject({
        status: 'pending',
      });
    });
  });

  it('a token that waits in the name of an agent takes nothing after the agent got its own key', async () => {
    await asToken('DELETE', `/v1/identities/${signer.id}/link`);
    const project = `shop-${randomUUID()}`;
    await asToken('POST', `/v1/projects/${project}/tasks`, { command: 'x' });
    await asToken('POST', `/v1/projects/${project}/tasks/claim`, {});
    const claim = server.ask('POST', `/v1/projects/${project}/tasks/claim`, {
      body: { wait: 20 },
      headers: { ...token, 'stoa-agent': name },
    });
    await expect.poll(() => server.stoa.workspaces.port.waiters.size, { interval: 5 }).toBe(1);
    await link();
    await asToken('POST', `/v1/projects/${project}/tasks`, { command: 'x' });
    expect(await claim).toMatchObject({ status: 403, json: { code: 'forbidden' } });
  });
});
