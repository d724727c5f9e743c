import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { rotationText } from '../../src/identity/signatures.js';
import { Agent, MessagingServer, roomy } from './kit.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';
import { eventually } from '../until.js';
import { statusOfHead } from './status-of-head.js';

let server: MessagingServer;
beforeAll(async () => {
  server = await MessagingServer.open({ limits: { ...roomy, agentsPerUserMax: 100 } });
});
afterAll(() => server.close());

const ada = operatorCaller('ada');
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function newToken(namespaces: string[] | null = null) {
  return (await server.stoa.identity.createToken(operatorCaller(), 'ada', { scopes: { namespaces } }, null))
    .token;
}

/** A new agent of ada, under a name of its own. */
async function newRecord() {
  return (await server.stoa.registry.createAgent(ada, { name: `scout-${randomUUID()}` })).agent_id;
}

function link(id: string, body: object, headers: Record<string, string>) {
  return server.ask('PUT', `/v1/identities/${id}/link`, { body, headers });
}

/** Ann's identity, linked to a new agent of ada. */
async function linked() {
  const [ann, agentId] = [await server.agent('Ann'), await newRecord()];
  expect(
    (await link(ann.id, { agent_id: agentId, consent: ann.consent(agentId) }, bearer(await newToken())))
      .status,
  ).toBe(200);
  return { ann, agentId };
}

const read = (agent: Agent, path: string) =>
  server.ask('GET', path, { headers: agent.messageSignature('GET', path) });

async function remove(agentId: string) {
  await server.stoa.registry.updateAgentStatus(ada, agentId, 'error');
  const path = `/v1/agents/${agentId.toUpperCase()}`;
  expect((await server.ask('DELETE', path, { headers: bearer(await newToken()) })).status).toBe(204);
}

describe('a link', () => {
  it('reaches no more namespaces than the token that makes it', async () => {
    const ann = await server.agent('Ann');
    const agent_id = await newRecord();
    const narrow = bearer(await newToken(['notes', 'plans']));
    for (const namespaces of [undefined, null, ['notes', 'payroll']]) {
      const refused = await link(
        ann.id,
        { agent_id, ...(namespaces !== undefined && { namespaces }) },
        narrow,
      );
      expect(refused.json).toMatchObject({ status: 403, fix: expect.stringContaining('notes, plans') });
    }
    expect((await read(ann, '/v1/data/payroll')).status).toBe(403);
    expect(
      (await link(ann.id, { agent_id, namespaces: ['notes'], consent: ann.consent(agent_id) }, narrow))
        .status,
    ).toBe(200);
    expect((await read(ann, '/v1/data/notes')).status).toBe(200);
  });

  it("needs the identity's signed consent, for this agent and not expired", async () => {
    const [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
    const [agent_id, other] = [await newRecord(), await newRecord()];
    const token = bearer(await newToken());
    const hourMs = 3_600_000;
    const bad = {
      none: undefined,
      'of another identity': bob.consent(agent_id),
      'for another agent': ann.consent(other),
      old: ann.consent(agent_id, Date.now() - hourMs),
      early: ann.consent(agent_id, Date.now() + 60_000),
      garbled: { signed_at: new Date().toISOString(), signature: 'AAAA' },
    };
    for (const [which, consent] of Object.entries(bad)) {
      expect((await link(ann.id, { agent_id, consent }, token)).json, which).toMatchObject({
        code: 'forbidden',
        fix: expect.stringContaining(`stoa-link|${ann.id}|${agent_id}|`),
      });
    }
    expect((await read(ann, '/v1/data')).status).toBe(403);
    expect((await link(ann.id, { agent_id, consent: { signed_at: 1 } }, token)).json.detail).toContain(
      'body.consent.signed_at',
    );
    expect((await link(ann.id, { agent_id, consent: ann.consent(agent_id) }, token)).status).toBe(200);
    // It is already linked to that user, who may choose the agent.
    expect((await link(ann.id, { agent_id: other, write: false }, token)).status).toBe(200);
    const stranger = (await server.stoa.identity.createToken(operatorCaller(), 'mallory', {}, null)).token;
    const { agent_id: trap } = await server.stoa.registry.createAgent(operatorCaller('mallory'), {
      name: 'trap',
    });
    expect(
      (await link(ann.id, { agent_id: trap, consent: ann.consent(trap) }, bearer(stranger))).status,
    ).toBe(409);
  });

  it('lets the identity claim tasks in the name of its agent only, also in a commit', async () => {
    const { ann } = await linked();
    const { workspaces } = server.stoa;
    const { id: workspaceId } = await workspaces.createWorkspace(ada, { name: `work-${randomUUID()}` });
    const project = await workspaces.createProject(ada, workspaceId, { name: 'claims' });
    const session = await workspaces.createSession(ada, project.id, {});
    const task = await workspaces.createTask(ada, session.id, { command: 'npm test' });
    const send = (path: string, body: object) => {
      const text = JSON.stringify(body);
      return server.ask('POST', path, { raw: text, headers: ann.messageSignature('POST', path, text) });
    };
    const claim = `/v1/projects/${project.id}/tasks/claim`;
    const operation = { op: 'task.claim', project_id: project.id, agent_id: 'another' };
    expect((await send(claim, { agent_id: 'another' })).json).toMatchObject({ code: 'forbidden' });
    expect((await send('/v1/commit', { operations: [operation] })).json).toMatchObject({ code: 'forbidden' });
    expect(await workspaces.getTask(ada, task.id)).toMatchObject({ status: 'pending', attempts: 0 });
    expect((await send(claim, {})).json.task).toMatchObject({ id: task.id, status: 'running' });
  });

  it('is refused if the key that consented is replaced meanwhile', async () => {
    const [ann, agent_id] = [await server.agent('Ann'), await newRecord()];
    const linking = server.stoa.links.link({ ...ada, kind: 'user' }, ann.id, {
      agent_id,
      write: true,
      namespaces: null,
      consent: ann.consent(agent_id),
    });
    const rotated = writtenPort(server.stoa.messaging).rotateKey({
      id: ann.id,
      oldPublicKey: ann.publicKey,
      newPublicKey: randomBytes(32).toString('base64'),
      proof: {
        scheme: 'aicq',
        publicKey: ann.publicKey,
        signature: '',
        nonce: '',
        timestampMs: 0,
        request: { base64: '' },
      },
    });
    await expect(linking).rejects.toMatchObject({ code: 'forbidden' });
    expect(await rotated).toBe('rotated');
    expect(await server.stoa.messaging.identities.linkOf(ann.id)).toBeNull();
    expect(await server.stoa.registry.linkedAgent(ann.id)).toBeNull();
  });

  it('names only valid namespaces, and a bounded number', async () => {
    const { ann, agentId } = await linked();
    const token = bearer(await newToken());
    for (const namespaces of [
      ['a\0b'],
      ['\ud800'],
      [''],
      ['x'.repeat(257)],
      Array.from({ length: 1_001 }, (_, number) => `n${number}`),
    ]) {
      expect((await link(ann.id, { agent_id: agentId, namespaces }, token)).json).toMatchObject({
        code: 'invalid_request',
        detail: expect.stringContaining('namespaces'),
      });
    }
    expect((await link(ann.id, { agent_id: agentId, namespaces: [] }, token)).status).toBe(200);
    expect((await read(ann, '/v1/data/notes')).status).toBe(403);
  });

  it('is shown with its agent and announced in the feed', async () => {
    const { ann, agentId } = await linked();
    const token = bearer(await newToken());
    const other = await newRecord();
    const identities = async (id: string) =>
      (await server.ask('GET', `/v1/agents/${id}/identities`, { headers: token })).json.items;
    expect(await identities(agentId)).toMatchObject([
      { identity: ann.id, agent_id: agentId, user: 'ada', write: true, namespaces: null },
    ]);
    expect((await link(ann.id, { agent_id: other, namespaces: ['notes'] }, token)).status).toBe(200);
    expect(await identities(agentId)).toEqual([]);
    expect(await identities(other)).toMatchObject([{ identity: ann.id, namespaces: ['notes'] }]);
    expect((await server.ask('DELETE', `/v1/identities/${ann.id}/link`, { headers: token })).status).toBe(
      204,
    );
    expect(await identities(other)).toEqual([]);
    const { items } = (await server.ask('GET', '/v1/changes?topics=registry&limit=1000', { headers: token }))
      .json as { items: { kind: string; id: string }[] };
    const told = items.filter(
      ({ kind, id }) => /^agent\.(un)?linked$/.test(kind) && [agentId, other].includes(id),
    );
    expect(told.map(({ kind, id }) => [kind, id])).toEqual([
      ['agent.linked', agentId],
      ['agent.unlinked', agentId],
      ['agent.linked', other],
      ['agent.unlinked', other],
    ]);
  });

  it("shows page after page of an agent's identities", async () => {
    const agentId = await newRecord();
    const token = bearer(await newToken());
    const agents = await Promise.all([1, 2, 3].map(() => server.agent()));
    for (const agent of agents)
      expect(
        (await link(agent.id, { agent_id: agentId, consent: agent.consent(agentId) }, token)).status,
      ).toBe(200);
    const found: string[] = [];
    let next: string | null = '';
    while (next !== null) {
      const { json } = await server.ask(
        'GET',
        `/v1/agents/${agentId}/identities?limit=2${next === '' ? '' : `&cursor=${next}`}`,
        { headers: token },
      );
      found.push(...json.items.map(({ identity }: { identity: string }) => identity));
      next = json.next_cursor;
    }
    expect(found).toEqual(agents.map(({ id }) => id).toSorted());
  });

  it('belongs to the owner of the agent, also when the operator makes it without naming a user', async () => {
    const ann = await server.agent('Ann');
    const agent_id = await newRecord();
    const made = await link(ann.id, { agent_id }, bearer(server.stoa.operatorToken));
    expect(made.json).toMatchObject({ user: 'ada', agent_id });
    expect((await read(ann, `/v1/agents/${agent_id}`)).status).toBe(200);
  });

  it('gives no access after its agent is deleted', async () => {
    const { ann, agentId } = await linked();
    expect((await read(ann, '/v1/data')).status).toBe(200);
    await remove(agentId);
    expect((await read(ann, '/v1/data')).json).toMatchObject({
      code: 'forbidden',
      detail: 'The agent that this identity is linked to was deleted.',
    });
    expect((await ann.ask('GET', '/dm')).status).toBe(200);
  });

  it('gives no access to a new agent under the id of a deleted one', async () => {
    const { ann, agentId } = await linked();
    await remove(agentId);
    await server.stoa.registry.putAgent(ada, { agent_id: agentId, name: 'another' });
    expect((await read(ann, '/v1/data')).json).toMatchObject({
      code: 'forbidden',
      detail: 'The agent that this identity is linked to was deleted.',
    });
    const token = bearer(await newToken());
    expect((await link(ann.id, { agent_id: agentId, consent: ann.consent(agentId) }, token)).status).toBe(
      200,
    );
    expect((await read(ann, '/v1/data')).status).toBe(200);
  });
});

async function rotated(agent: Agent): Promise<void> {
  const next = new Agent(server);
  const body = {
    public_key: next.publicKey,
    proof: next.sign(rotationText(agent.id, agent.publicKey, next.publicKey)),
  };
  expect((await agent.ask('POST', `/who/${agent.id}/key`, { body })).status).toBe(200);
}

describe('the streams of messaging', () => {
  it.each(['/dm/stream', '/room/global/stream'])(
    'that an agent has opened at %s end when its key is replaced',
    async (path) => {
      const [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
      const open = async (agent: Agent) => fetch(server.url + path, { headers: agent.headers() });
      const [mine, other] = [await open(ann), await open(bob)];
      expect([mine.status, other.status]).toEqual([200, 200]);
      await rotated(ann);
      await mine.text();
      expect((await open(ann)).status).toBe(401);
      // The other stream continues.
      const reader = other.body?.getReader();
      await ann.ask('GET', '/stats');
      expect(server.app.stoaServer.streams.count).toBe(1);
      await reader?.cancel();
      await eventually(() => expect(server.app.stoaServer.streams.count).toBe(0));
    },
  );
});

describe('a large body', () => {
  const path = '/v1/data/notes/large';
  const large = { 'content-type': 'application/json', 'content-length': '10000000' };

  it('is read from a linked identity that signed its digest', async () => {
    const { ann } = await linked();
    const body = JSON.stringify({ value: 'x'.repeat(500_000) });
    const put = (raw: string) =>
      server.ask('PUT', path, { raw, headers: ann.messageSignature('PUT', path, body) });
    expect((await put(body)).status).toBe(201);
    expect((await put(body.replace('x', 'y'))).json).toMatchObject({
      code: 'unauthenticated',
      detail: 'content-digest does not match the body',
    });
  });

  it.each([
    ['nobody', () => ({}) as Record<string, string>],
    [
      'an agent that is not there',
      (ann: Agent) =>
        Object.assign(new Agent(server, ann.seed), { id: randomUUID() }).messageSignature('PUT', path, 'x'),
    ],
    [
      "a key that is another's",
      (ann: Agent) => Object.assign(new Agent(server), { id: ann.id }).messageSignature('PUT', path, 'x'),
    ],
    [
      'an old signature',
      (ann: Agent) => ann.messageSignature('PUT', path, 'x', { created: Math.floor(Date.now() / 1000) - 60 }),
    ],
    [
      'a signature that leaves the body out',
      (ann: Agent) => ann.messageSignature('PUT', path, 'x', { components: ['@method', '@target-uri'] }),
    ],
    ['the scheme that covers no address', (ann: Agent) => ann.headers('x')],
  ])('is not waited for from %s', async (_who, headersOf) => {
    const { ann } = await linked();
    expect(await statusOfHead(server.url, 'PUT', path, { ...large, ...headersOf(ann) })).toBe('401');
    const { 'content-length': _, ...chunked } = large;
    expect(
      await statusOfHead(server.url, 'PUT', path, {
        ...chunked,
        'transfer-encoding': 'chunked',
        ...headersOf(ann),
      }),
    ).toBe('401');
  });

  it('is not read from an identity without a link', async () => {
    const bob = await server.agent('Bob');
    expect(
      await statusOfHead(server.url, 'PUT', path, { ...large, ...bob.messageSignature('PUT', path, 'x') }),
    ).toBe('403');
  });
});

describe('a stream requested with a key', () => {
  it('is refused when the key is replaced before it opens', async () => {
    const ann = await server.agent('Ann');
    const { direct } = server.stoa.messaging;
    const readerOf = direct.readerOf.bind(direct);
    vi.spyOn(direct, 'readerOf').mockImplementationOnce(async (caller) => {
      await rotated(ann);
      return readerOf(caller);
    });
    expect((await fetch(`${server.url}/dm/stream`, { headers: ann.headers() })).status).toBe(401);
  });
});

describe('the feed of a signed agent', () => {
  const path = '/v1/changes';

  it("shows its own record and sessions, not the user's other agents", async () => {
    const { ann, agentId } = await linked();
    const other = await newRecord();
    for (const id of [agentId, other]) {
      await server.stoa.registry.start(ada, id);
      await server.stoa.registry.openSession(ada, id);
    }
    const { items } = (await read(ann, path)).json as {
      items: { domain: string; kind: string; id: string; facts?: { agent?: string } }[];
    };
    const told = items.filter(({ domain, kind }) => domain === 'registry' && !kind.startsWith('user.'));
    expect(told.map(({ kind }) => kind)).toEqual([
      'agent.created',
      'agent.linked',
      'agent.transitioned',
      'session.opened',
    ]);
    for (const { id, facts } of told) expect([id, facts?.agent]).toContain(agentId);
    expect(JSON.stringify(items)).not.toContain(other);
  });

  it.each([
    [
      'its link is taken away',
      async ({ ann }: { ann: Agent }) =>
        server.ask('DELETE', `/v1/identities/${ann.id}/link`, { headers: bearer(await newToken()) }),
    ],
    [
      'its link is narrowed',
      async ({ ann, agentId }: { ann: Agent; agentId: string }) =>
        link(ann.id, { agent_id: agentId, namespaces: ['notes'] }, bearer(await newToken())),
    ],
    ['its key is replaced', async ({ ann }: { ann: Agent }) => rotated(ann)],
    ['its agent is deleted', async ({ agentId }: { agentId: string }) => remove(agentId)],
  ])('ends when %s', async (_when, happen) => {
    const signed = await linked();
    const response = await fetch(server.url + path, {
      headers: { ...signed.ann.messageSignature('GET', path), accept: 'text/event-stream' },
    });
    expect(response.status).toBe(200);
    const rest = response.text();
    await happen(signed);
    expect(await rest).toContain('event: position');
  });
});
