import { randomUUID } from 'node:crypto';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { operatorCaller } from '../../../src/core/caller.js';
import { messagingGroup } from '../../../src/server/routes/messaging/index.js';
import { routeGroups } from '../../../src/server/routes/index.js';
import type { Route } from '../../../src/server/route.js';
import { routeTable } from '../rows/index.js';
import type { RowRequest } from '../rows/row.js';
import { type Reply, Running } from '../running.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';
import { linkIdentity } from '../../../src/registry/conformance/bench.js';

/** Hostile values, as they are written in a URL. */
const hostile: Readonly<Record<string, string>> = {
  'four thousand characters': 'x'.repeat(4_000),
  'four thousand digits': '7'.repeat(4_000),
  'a cursor of nobody': Buffer.alloc(3_000, 0xff).toString('base64url'),
  NUL: '%00',
  'NUL in the middle': 'a%00b',
  emoji: encodeURIComponent('🎉'.repeat(300)),
  'a lone surrogate as bytes': '%ed%a0%80',
  'a lone surrogate as an escape': encodeURIComponent('\\ud800'),
  'a negative number': '-1',
  'a path out of here': encodeURIComponent('../../etc/passwd'),
  'a name of every object': '__proto__',
  nothing: '',
};

/** Contents of a cursor after the name of its list. */
const forgedKeys: Readonly<Record<string, Buffer>> = {
  'one byte': Buffer.of(0x41),
  NUL: Buffer.alloc(40),
  'bytes that are no text': Buffer.alloc(64, 0xff),
  'a key longer than any': Buffer.alloc(3_000, 0x7a),
  'two thousand bytes': Buffer.alloc(2_000, 0x31),
  'text that is no key': Buffer.from('["notes", 1]'),
  'a number below zero': Buffer.from('-1 x'),
  'another shard': Buffer.from('7.00'),
};

let running: Running;
let agentId: string;

beforeAll(async () => {
  running = await Running.start({
    limits: {
      agentsPerUserMax: 1_000_000,
      addressRequestsPerMinuteMax: 1_000_000,
      roomReadsPerMinuteMax: 1_000_000,
      searchesPerMinuteMax: 1_000_000,
      channelReadsPerMinuteMax: 1_000_000,
      directReadsPerMinuteMax: 1_000_000,
      profileReadsPerMinuteMax: 1_000_000,
    },
  });
  agentId = (await running.stoa.registry.createAgent(operatorCaller('alice'), { name: 'signed' })).agent_id;
});
afterAll(() => running.stop());

const asked = routeGroups
  .flatMap((group) => group.routes)
  .flatMap((route) =>
    parametersOf(route).map((parameter) => ({
      route,
      parameter,
      name: `${route.method} ${route.path}?${parameter}`,
    })),
  );

function parametersOf({ query }: Route): string[] {
  return query instanceof z.ZodObject ? Object.keys(query.shape) : [];
}

/** The row's own request. */
async function requestOf({ method, path }: Route): Promise<RowRequest> {
  const row = routeTable[`${method} ${path}`];
  if (row === undefined) throw new Error(`${method} ${path} has no row in the table of principals.`);
  return row.request(running, agentId);
}

/** A request with a parameter set to what is already encoded. */
async function ask(
  { method }: Route,
  { path, body, headers = {} }: RowRequest,
  parameter: string,
  value: string,
  as: Record<string, string>,
): Promise<Reply> {
  const [base, given = ''] = path.split('?');
  const others = given.split('&').filter((pair) => pair !== '' && pair.split('=', 1)[0] !== parameter);
  return running.ask(method, `${base}?${[...others, `${parameter}=${value}`].join('&')}`, {
    as,
    body,
    headers,
  });
}

function operator(): Record<string, string> {
  return { authorization: `Bearer ${running.operator}` };
}

/**
 * The answer has the shape of its group, and is neither an internal error nor an engine's error about sizes.
 */
function expectOwnAnswer(route: Route, reply: Reply, about: string): void {
  expect(reply.status, `${about}: ${reply.text.slice(0, 300)}`).toBeLessThan(500);
  expect(reply.status, `${about}: ${reply.text.slice(0, 300)}`).not.toBe(413);
  expect(reply.text, about).not.toMatch(/longer than \d+ bytes/);
  if (reply.status < 400) return;
  if (messagingGroup.routes.includes(route)) expect(reply.json, about).toEqual({ error: expect.any(String) });
  else expect(reply.headers.get('content-type'), about).toBe('application/problem+json; charset=utf-8');
}

describe('every query parameter of every route', () => {
  test('is walked', () => {
    expect(asked.length).toBeGreaterThan(50);
  });

  test.each(asked)('accepts or refuses every value: $name', async ({ route, parameter, name }) => {
    for (const [kind, value] of Object.entries(hostile)) {
      const reply = await ask(route, await requestOf(route), parameter, value, {
        ...operator(),
        'stoa-user': 'alice',
      });
      expectOwnAnswer(route, reply, `${name} with ${kind}`);
      if (kind === 'a lone surrogate as bytes') expect(reply.status, name).toBe(400);
    }
  });
});

describe('every cursor', () => {
  const lists = asked.filter(
    ({ route, parameter }) => parameter === 'cursor' && route.path.startsWith('/v1/'),
  );

  test.each(lists)(
    'that is forged behind a true beginning is refused, or begins where it says: $name',
    async ({ route, name }) => {
      const request = await filled(route);
      let walked = 0;
      for (const as of [operator(), { authorization: `Bearer ${running.alice}` }]) {
        const first = await ask(route, request, 'limit', '1', as);
        // Some lists are the operator's alone.
        if (first.status === 403) continue;
        const { next_cursor: cursor } = first.json as { next_cursor: string | null };
        // Without a user, the operator acts for "default", which has no documents.
        if (cursor === null) continue;
        const second = await ask(route, request, 'cursor', cursor, as);
        expect(second.status, `${name} ${second.text}`).toBe(200);
        const mark = Buffer.from(cursor, 'base64url').subarray(0, 4);
        for (const [kind, key] of Object.entries(forgedKeys)) {
          const reply = await ask(
            route,
            request,
            'cursor',
            Buffer.concat([mark, key]).toString('base64url'),
            as,
          );
          expectOwnAnswer(route, reply, `${name} with ${kind}`);
          expect([200, 400], `${name} with ${kind}`).toContain(reply.status);
          walked += 1;
        }
      }
      expect(walked).toBeGreaterThan(0);
    },
  );
});

/** A request for a list that has several items. */
async function filled(route: Route): Promise<RowRequest> {
  const request = await requestOf(route);
  for (const number of [1, 2, 3]) await addTo(route.path, request.path, number);
  return request;
}

async function addTo(route: string, path: string, number: number): Promise<void> {
  const alice = operatorCaller('alice');
  const { data, registry, workspaces, identity, messaging, locks } = running.stoa;
  // The id of what the list is of.
  const id = decodeURIComponent(path.split('?', 1)[0]?.split('/')[3] ?? '');
  switch (route) {
    case '/v1/data/{namespace}':
      await data.set(alice, id, `key-${number}`, number);
      return;
    case '/v1/data':
    case '/v1/documents':
    case '/v1/inspect/{family}':
    case '/v1/users':
      await data.set(operatorCaller(`user-${number}`), `several-${number}`, 'key', number);
      await data.set(alice, `several-${number}`, 'key', number);
      await registry.createAgent(alice, { name: `several-${number}-${randomUUID()}x` });
      return;
    case '/v1/agents':
      await registry.createAgent(alice, { name: `several-${number}-${randomUUID()}x` });
      return;
    case '/v1/agents/{agent_id}/sessions':
      if (number === 1) await registry.start(alice, id);
      await registry.openSession(alice, id);
      return;
    case '/v1/agents/{agent_id}/identities': {
      const { identity: made } = await writtenPort(messaging).register({
        publicKey: randomBytes(32).toString('base64'),
        name: 'several',
        email: null,
        proven: false,
      });
      await linkIdentity({ registry, writer: messaging.writer }, alice, id, made.id);
      return;
    }
    case '/v1/users/{user}/tokens':
      await identity.createToken(operatorCaller(), id, {}, null);
      return;
    case '/v1/workspaces':
      await workspaces.createWorkspace(alice, { name: `several ${Math.random()}` });
      return;
    case '/v1/workspaces/{workspace_id}/projects':
      await workspaces.createProject(alice, id, { name: `several ${number}` });
      return;
    case '/v1/projects/{project_id}/sessions':
      await workspaces.createSession(alice, id, {});
      return;
    case '/v1/tasks': {
      const workspace = await workspaces.createWorkspace(alice, { name: `several ${Math.random()}` });
      const project = await workspaces.createProject(alice, workspace.id, { name: 'several' });
      const session = await workspaces.createSession(alice, project.id, {});
      await workspaces.createTask(alice, session.id, { command: 'several' });
      return;
    }
    case '/v1/projects/{project_id}/tasks/ready': {
      const session = await workspaces.createSession(alice, id, {});
      await workspaces.createTask(alice, session.id, { command: 'several' });
      return;
    }
    case '/v1/sessions/{session_id}/tasks':
      await workspaces.createTask(alice, id, { command: 'several' });
      return;
    case '/v1/blocks':
      await messaging.port.block({
        address: `203.0.113.${number}`,
        reason: 'several',
        expiresAtMs: Date.now() + 60_000,
      });
      return;
    case '/v1/find':
      await data.set(alice, 'several', `gate-${number}`, 'gate');
      return;
    case '/v1/locks':
      await locks.acquire(alice, `several-${number}`);
      return;
    case '/v1/rooms':
      await messaging.rooms.create(
        alice,
        { name: `several-${number}`, is_private: false, key: '', owner: 'alice' },
        null,
      );
      return;
    case '/v1/rooms/{room}/messages':
      await messaging.rooms.post(alice, { room: id }, () => ({ body: `several ${number}`, pid: '' }), null);
      return;
    case '/v1/inbox':
      // Only an author has an identity that can be written to.
      await messaging.rooms.post(alice, { room: 'global' }, () => ({ body: 'several', pid: '' }), null);
      await messaging.direct.send(
        { ...alice, agent: 'sender' },
        { to: await messaging.direct.readerOf(alice) },
        { body: `several ${number}` },
        null,
      );
      return;
    default:
      throw new Error(`How does ${route} get several items?`);
  }
}
