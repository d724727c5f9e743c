import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/identity/caller.js';
import { type Agent, Desk } from './kit.js';

let desk: Desk;
beforeAll(async () => {
  desk = await Desk.open();
});
afterAll(() => desk.close());

const ada = operatorCaller('ada');
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function newToken(namespaces: string[] | null = null) {
  return (await desk.stoa.identity.createToken(operatorCaller(), 'ada', { scopes: { namespaces } }, null)).token;
}

async function newRecord(name = 'scout') {
  return (await desk.stoa.registry.createAgent(ada, { name })).agent_id;
}

function link(id: string, body: object, headers: Record<string, string>) {
  return desk.ask('PUT', `/v1/identities/${id}/link`, { body, headers });
}

/** Ann's identity, linked to a new agent of ada. */
async function linked() {
  const [ann, agentId] = [await desk.agent('Ann'), await newRecord()];
  expect((await link(ann.id, { agent_id: agentId }, bearer(await newToken()))).status).toBe(200);
  return { ann, agentId };
}

const read = (agent: Agent, path: string) => desk.ask('GET', path, { headers: agent.messageSignature('GET', path) });

async function remove(agentId: string) {
  await desk.stoa.registry.updateAgentStatus(ada, agentId, 'error');
  const path = `/v1/agents/${agentId.toUpperCase()}`;
  expect((await desk.ask('DELETE', path, { headers: bearer(await newToken()) })).status).toBe(204);
}

describe('a link', () => {
  it('reaches no more namespaces than the token that makes it', async () => {
    const ann = await desk.agent('Ann');
    const agent_id = await newRecord();
    const narrow = bearer(await newToken(['notes', 'plans']));
    for (const namespaces of [undefined, null, ['notes', 'payroll']]) {
      const refused = await link(ann.id, { agent_id, ...(namespaces !== undefined && { namespaces }) }, narrow);
      expect(refused.json).toMatchObject({ status: 403, fix: expect.stringContaining('notes, plans') });
    }
    expect((await read(ann, '/v1/data/payroll')).status).toBe(403);
    expect((await link(ann.id, { agent_id, namespaces: ['notes'] }, narrow)).status).toBe(200);
    expect((await read(ann, '/v1/data/notes')).status).toBe(200);
  });

  it('is to the owner of the agent, also when the operator makes it without naming a user', async () => {
    const ann = await desk.agent('Ann');
    const agent_id = await newRecord();
    const made = await link(ann.id, { agent_id }, bearer(desk.stoa.operatorToken));
    expect(made.json).toMatchObject({ user: 'ada', agent_id });
    expect((await read(ann, `/v1/agents/${agent_id}`)).status).toBe(200);
  });

  it('opens nothing once its agent is deleted', async () => {
    const { ann, agentId } = await linked();
    expect((await read(ann, '/v1/data')).status).toBe(200);
    await remove(agentId);
    expect((await read(ann, '/v1/data')).json).toMatchObject({ code: 'forbidden', detail: 'The agent that this identity is linked to is gone.' });
    expect((await ann.ask('GET', '/dm')).status).toBe(200);
  });
});

describe('the feed of a signed agent', () => {
  const path = '/v1/changes';

  it('tells of its own record and sessions, not of the user\'s other agents', async () => {
    const { ann, agentId } = await linked();
    const other = await newRecord('other');
    for (const id of [agentId, other]) {
      await desk.stoa.registry.start(ada, id);
      await desk.stoa.registry.openSession(ada, id);
    }
    const { items } = (await read(ann, path)).json as { items: { domain: string; kind: string; id: string; facts?: { agent?: string } }[] };
    const told = items.filter(({ domain, kind }) => domain === 'registry' && !kind.startsWith('user.'));
    expect(told.map(({ kind }) => kind)).toEqual(['agent.created', 'agent.transitioned', 'session.opened']);
    for (const { id, facts } of told) expect([id, facts?.agent]).toContain(agentId);
    expect(JSON.stringify(items)).not.toContain(other);
  });

  it.each([
    ['its link is taken away', async ({ ann }: { ann: Agent }) => desk.ask('DELETE', `/v1/identities/${ann.id}/link`, { headers: bearer(await newToken()) })],
    ['its link is narrowed', async ({ ann, agentId }: { ann: Agent; agentId: string }) => link(ann.id, { agent_id: agentId, namespaces: ['notes'] }, bearer(await newToken()))],
    ['its agent is deleted', async ({ agentId }: { agentId: string }) => remove(agentId)],
  ])('ends when %s', async (_when, happen) => {
    const signed = await linked();
    const response = await fetch(desk.url + path, { headers: { ...signed.ann.messageSignature('GET', path), accept: 'text/event-stream' } });
    expect(response.status).toBe(200);
    const rest = response.text();
    await happen(signed);
    expect(await rest).toContain('event: position');
  });
});
