/** Every call of the client takes a signal, and ends with its reason. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentKeys, type CallSettings, Stoa } from '../../src/client/index.js';
import { Running } from '../server/running.js';

const id = '00000000-0000-4000-8000-000000000000';
let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

/** Each with valid arguments; the server is never reached. */
function callsOf(
  stoa: Stoa,
  keys: AgentKeys,
  settings: CallSettings & { signal: AbortSignal },
): Record<string, () => Promise<unknown>> {
  const agent = stoa.agent(keys, id);
  const data = stoa.data('n');
  const room = stoa.room(id);
  const direct = agent.direct;
  return {
    'admin.status': () => stoa.admin.status(settings),
    'admin.listUsers': () => stoa.admin.listUsers(settings),
    'admin.putUser': () => stoa.admin.putUser('u', {}, settings),
    'admin.createToken': () => stoa.admin.createToken('u', {}, settings),
    'admin.revokeToken': () => stoa.admin.revokeToken('u', 't', settings),
    'admin.backup': () => stoa.admin.backup({}, settings),
    'agents.create': () => stoa.agents.create({ name: 'a' }, settings),
    'agents.get': () => stoa.agents.get('a', settings),
    'agents.list': () => stoa.agents.list(settings),
    'agents.update': () => stoa.agents.update('a', {}, settings),
    'agents.delete': () => stoa.agents.delete('a', settings),
    'agents.start': () => stoa.agents.start('a', settings),
    'agents.stop': () => stoa.agents.stop('a', settings),
    'agents.restart': () => stoa.agents.restart('a', settings),
    'agents.hibernate': () => stoa.agents.hibernate('a', settings),
    'agents.wake': () => stoa.agents.wake('a', settings),
    'agents.heartbeat': () => stoa.agents.heartbeat('a', settings),
    'agents.keepAlive': () => stoa.agents.keepAlive('a', settings),
    'agents.openSession': () => stoa.agents.openSession('a', settings),
    'agents.getSession': () => stoa.agents.getSession('a', 's', settings),
    'agents.listSessions': () => stoa.agents.listSessions('a', settings),
    'agents.closeSession': () => stoa.agents.closeSession('a', 's', settings),
    'agents.link': () => stoa.agents.link('a', { identity: id, signed_at: 1, signature: '' }, settings),
    'agents.unlink': () => stoa.agents.unlink(id, settings),
    'agents.listIdentities': () => stoa.agents.listIdentities('a', settings),
    'changes.read': () => stoa.changes.read(settings),
    commit: () => stoa.commit({ operations: [{ op: 'data.delete', key: 'k' }] }, settings),
    'data.get': () => data.get('k', null, settings),
    'data.getEntry': () => data.getEntry('k', settings),
    'data.set': () => data.set('k', 1, settings),
    'data.delete': () => data.delete('k', settings),
    'data.getMany': () => data.getMany(['k'], settings),
    'data.batch': () => data.batch({ get: ['k'], ...settings }),
    'data.setMany': () => data.setMany({ k: 1 }, settings),
    'data.getAll': () => data.getAll(settings),
    'data.entries': () => data.entries(settings).next(),
    'data.listKeys': () => data.listKeys(settings),
    'data.listNamespaces': () => data.listNamespaces(settings),
    'data.clear': () => data.clear(settings),
    'data.update': () => data.update('k', () => 1, settings),
    'data.increment': () => data.increment('k', 1, settings),
    'data.append': () => data.append('k', [1], settings),
    'data.mergePatch': () => data.mergePatch('k', {}, settings),
    'workspaces.create': () => stoa.workspaces.create({ name: 'w' }, settings),
    'workspaces.get': () => stoa.workspaces.get('w', settings),
    'workspaces.list': () => stoa.workspaces.list(settings),
    'workspaces.update': () => stoa.workspaces.update('w', {}, settings),
    'workspaces.delete': () => stoa.workspaces.delete('w', settings),
    'workspaces.restore': () => stoa.workspaces.restore('w', {}, settings),
    'workspaces.purge': () => stoa.workspaces.purge('w', settings),
    'projects.create': () => stoa.projects.create('w', { name: 'p' }, settings),
    'projects.get': () => stoa.projects.get('p', settings),
    'projects.list': () => stoa.projects.list('w', settings),
    'projects.update': () => stoa.projects.update('p', {}, settings),
    'projects.delete': () => stoa.projects.delete('p', settings),
    'projects.restore': () => stoa.projects.restore('p', {}, settings),
    'projects.purge': () => stoa.projects.purge('p', settings),
    'sessions.create': () => stoa.sessions.create('p', {}, settings),
    'sessions.get': () => stoa.sessions.get('s', settings),
    'sessions.list': () => stoa.sessions.list('p', settings),
    'sessions.active': () => stoa.sessions.active('p', settings),
    'sessions.update': () => stoa.sessions.update('s', {}, settings),
    'sessions.delete': () => stoa.sessions.delete('s', settings),
    'tasks.create': () => stoa.tasks.create('s', { command: 'c' }, settings),
    'tasks.get': () => stoa.tasks.get('t', settings),
    'tasks.list': () => stoa.tasks.list('s', settings),
    'tasks.ready': () => stoa.tasks.ready('p', settings),
    'tasks.update': () => stoa.tasks.update('t', {}, settings),
    'tasks.delete': () => stoa.tasks.delete('t', settings),
    'tasks.cancel': () => stoa.tasks.cancel('t', {}, settings),
    'tasks.claim': () => stoa.tasks.claim('p', settings),
    'room.post': () => room.post('b', settings),
    'room.read': () => room.read(settings),
    'room.thread': () => room.thread('m', settings),
    'room.delete': () => room.delete('m', settings),
    'agent.register': () => agent.register({}, settings),
    'agent.rotate': () => agent.rotate(keys, settings),
    'agent.updateProfile': () => agent.updateProfile({}, settings),
    'agent.who': () => agent.who(id, settings),
    'agent.createRoom': () => agent.createRoom('r', settings),
    'agent.find': () => agent.find('words', settings),
    'direct.send': () => direct.send(id, 'text', settings),
    'direct.read': () => direct.read(settings),
    'direct.acknowledge': () => direct.acknowledge(['m'], settings),
  };
}

/** Never answers. */
const hanging: typeof fetch = (_input, init) =>
  new Promise((_resolve, reject) =>
    init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
  );

/** Those that talk to nobody, or end without an error because they are streams. */
const others = new Set([
  'agent.consent',
  'agent.room',
  'agent.data',
  'data.useNamespace',
  'data.watch',
  'changes.follow',
  'room.stream',
  'room.watch',
  'direct.stream',
]);

test('every call ends with the reason of a signal that is aborted, and sends nothing', async () => {
  const keys = await AgentKeys.generate();
  let sent = 0;
  const counted: typeof fetch = (input, init) => {
    sent += 1;
    return fetch(input, init);
  };
  const stoa = new Stoa({ url: running.url, token: running.operator, fetch: counted });
  const reason = new Error('not any more');
  const calls = callsOf(stoa, keys, { signal: AbortSignal.abort(reason) });
  for (const [name, call] of Object.entries(calls)) await expect(call(), name).rejects.toBe(reason);
  expect(sent).toBe(0);
  const agent = stoa.agent(keys, id);
  const clients = {
    admin: stoa.admin,
    agents: stoa.agents,
    changes: stoa.changes,
    data: stoa.data(),
    workspaces: stoa.workspaces,
    projects: stoa.projects,
    sessions: stoa.sessions,
    tasks: stoa.tasks,
    room: stoa.room(id),
    agent,
    direct: agent.direct,
  };
  const names = Object.entries(clients).flatMap(([name, client]) =>
    [...Object.getOwnPropertyNames(Object.getPrototypeOf(client)), ...Object.keys(client)].flatMap(
      (member) => {
        // Getters may have nothing to give yet.
        const { value } =
          Object.getOwnPropertyDescriptor(Object.getPrototypeOf(client), member) ??
          Object.getOwnPropertyDescriptor(client, member) ??
          {};
        return member === 'constructor' || typeof value !== 'function' ? [] : [`${name}.${member}`];
      },
    ),
  );
  expect(names.filter((name) => !others.has(name) && calls[name] === undefined)).toEqual([]);
});

test('a call that waits for its answer ends at once', async () => {
  const stop = new AbortController();
  const reading = new Stoa({ url: running.url, fetch: hanging })
    .data('n')
    .get('k', null, { signal: stop.signal });
  const reason = new Error('changed my mind');
  stop.abort(reason);
  await expect(reading).rejects.toBe(reason);
});
