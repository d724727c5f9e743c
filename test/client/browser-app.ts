/** What the test of the client in a browser runs there: each domain once, as an app would. */
import { AgentKeys, Stoa, isAuthentic } from '../../src/client/index.js';

export interface Setting {
  url: string;
  token: string;
}

async function run({ url, token }: Setting): Promise<Record<string, unknown>> {
  const stoa = new Stoa({ url, token, agent: 'page' });
  return {
    data: await useData(stoa),
    agents: await useAgents(stoa),
    tasks: await useTasks(stoa),
    commit: await stoa.commit({
      checks: [{ check: 'data', key: 'leader', version: null }],
      operations: [
        { op: 'data.set', key: 'leader', value: 'page' },
        { op: 'room.post', room: 'global', body: 'page leads' },
      ],
    }),
    rooms: await useRooms(url),
  };
}

async function useData(stoa: Stoa): Promise<unknown> {
  const notes = stoa.data<string>('notes of a page');
  await notes.set('a/b', 'one');
  const stop = new AbortController();
  const seen: unknown[] = [];
  for await (const event of stoa.watch<string>({
    data: { namespace: 'notes of a page' },
    signal: stop.signal,
  })) {
    if (event.kind === 'snapshot') seen.push(event.items.map(({ key, value }) => [key, value]));
    if (event.kind === 'live' && seen.length === 1) await notes.set('ü', 'two', { ifVersion: 0 });
    if (event.kind === 'changes')
      seen.push(event.items.map(({ kind, key, version }) => [kind, key, version]));
    if (seen.length === 2) stop.abort();
  }
  const conflict = await notes
    .set('ü', 'three', { ifVersion: 7 })
    .catch(({ code }: { code: string }) => code);
  return { seen, value: await notes.get('ü'), conflict };
}

async function useAgents(stoa: Stoa): Promise<unknown> {
  const agent = await stoa.agents.create({ name: 'reader' });
  const { status } = await stoa.agents.start(agent.agent_id);
  const lease = await stoa.agents.keepAlive(agent.agent_id, { onLost: () => undefined });
  lease.stop();
  return { status, fence: lease.fence };
}

async function useTasks(stoa: Stoa): Promise<unknown> {
  const workspace = await stoa.workspaces.create({ name: 'page', project_path: '/page' });
  const project = await stoa.projects.create(workspace.id, { name: 'p' });
  const session = await stoa.sessions.create(project.id, { status: 'active' });
  await stoa.tasks.create(session.id, { command: 'paint' });
  const claim = await stoa.tasks.claim(project.id, { wait: 5 });
  return (await claim?.complete({ output: 'painted' }))?.status;
}

async function useRooms(url: string): Promise<unknown> {
  const nobody = new Stoa({ url });
  const [ann, bob] = [nobody.agent(await AgentKeys.generate()), nobody.agent(await AgentKeys.generate())];
  await ann.register({ name: 'ann' });
  await bob.register({ name: 'bob' });
  const { id } = await ann.rooms.create({ name: 'page-room', public: true });
  const room = ann.room(id);
  await room.post('signed in a browser');
  const { items: messages } = await bob.room(id).read({ verify: true });
  await ann.direct.send(bob.id, 'for your eyes only');
  const inbox = await bob.direct.read({ pending: true });
  return {
    bodies: messages.map(({ body }) => body),
    authentic: await Promise.all(messages.map(isAuthentic)),
    direct: inbox.items.map(({ text, body }) => [text, body.includes('eyes')]),
  };
}

Object.assign(globalThis, { run });
