/** Every call of the client takes a signal, and ends with its reason. */
import { takesQuery } from '../../../src/api/call.js';
import { operations } from '../../../src/api/index.js';
import { type Operation, parameterNames } from '../../../src/api/operation.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentKeys, type CallSettings, Stoa } from '../../../src/client/index.js';
import { Running } from '../../server/running.js';

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
    'agents.keepAlive': () => stoa.agents.keepAlive('a', settings),
    'agents.link': () =>
      stoa.agents.link('a', { identity: id, signed_at: '2026-01-31T12:00:00.000Z', signature: '' }, settings),
    'agents.unlink': () => stoa.agents.unlink(id, settings),
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
    'data.settings': () => data.settings(settings),
    'data.changeSettings': () => data.changeSettings({ embed: false }, settings),
    'data.mergePatch': () => data.mergePatch('k', {}, settings),
    'tasks.claim': () => stoa.tasks.claim('p', settings),
    'room.post': () => room.post('b', settings),
    'room.read': () => room.read(settings),
    'room.thread': () => room.thread('m', settings),
    'room.message': () => room.message('m', settings),
    'room.delete': () => room.delete('m', settings),
    'agent.register': () => agent.register({}, settings),
    'agent.rotate': () => agent.rotate(keys, settings),
    'agent.updateProfile': () => agent.updateProfile({}, settings),
    'direct.send': () => direct.send(id, 'text', settings),
    'direct.read': () => direct.read(settings),
    'direct.acknowledge': () => direct.acknowledge(['m'], settings),
  };
}

/** Every method that comes from a table, with the settings in their place. */
function derivedCalls(
  stoa: Stoa,
  settings: CallSettings & { signal: AbortSignal },
): Record<string, () => Promise<unknown>> {
  const { users, tokens, backups, blocks, documents, ...server } = stoa.admin;
  const { agents, workspaces, projects, sessions, tasks, rooms, identities, inbox } = stoa;
  const groups = {
    users,
    tokens,
    backups,
    blocks,
    documents,
    agents,
    workspaces,
    projects,
    sessions,
    tasks,
    rooms,
    identities,
    inbox,
    admin: server,
  };
  return Object.fromEntries(
    Object.entries(groups).flatMap(([group, client]) =>
      Object.entries(operations[group === 'admin' ? 'server' : (group as keyof typeof operations)]).flatMap(
        ([verb, row]: [string, Operation]) => {
          if (row.streams === 'always' || row.upload === true || verb === 'claim') return [];
          const given: unknown[] = parameterNames(row.path);
          if (!takesQuery(row) && row.bodiless !== true) given.push({});
          const methods = client as Readonly<Record<string, (...given: unknown[]) => Promise<unknown>>>;
          return [[`${group}.${verb}`, async () => methods[verb]?.(...given, settings)]];
        },
      ),
    ),
  );
}

/** Never answers. */
const hanging: typeof fetch = (_input, init) =>
  new Promise((_resolve, reject) =>
    init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
  );

/** Methods that send nothing, or streams that end without an error. */
const others = new Set([
  'admin.export',
  'admin.import',
  'agent.consent',
  'agent.room',
  'agent.data',
  'data.useNamespace',
  'data.watch',
  'changes.follow',
  'room.stream',
  'room.watch',
  'inbox.stream',
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
    agents: stoa.agents,
    changes: stoa.changes,
    data: stoa.data(),
    tasks: stoa.tasks,
    room: stoa.room(id),
    agent,
    inbox: agent.inbox,
    direct: agent.direct,
    admin: stoa.admin,
  };
  const derived = derivedCalls(stoa, { signal: AbortSignal.abort(reason) });
  for (const [name, call] of Object.entries(derived)) await expect(call(), name).rejects.toBe(reason);
  expect(sent).toBe(0);
  const names = Object.entries(clients).flatMap(([name, client]) => {
    const prototype: object = Object.getPrototypeOf(client);
    const inherited = prototype === Object.prototype ? [] : Object.getOwnPropertyNames(prototype);
    return [...inherited, ...Object.keys(client)].flatMap((member) => {
      // Getters may have nothing to give yet.
      const { value } =
        Object.getOwnPropertyDescriptor(prototype, member) ??
        Object.getOwnPropertyDescriptor(client, member) ??
        {};
      return member === 'constructor' || typeof value !== 'function' ? [] : [`${name}.${member}`];
    });
  });
  const known = (name: string): boolean =>
    others.has(name) || calls[name] !== undefined || derived[name] !== undefined;
  expect(names.filter((name) => !known(name))).toEqual([]);
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
