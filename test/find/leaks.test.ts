/** A search tells nothing of what the caller may not read: the answer is the same, byte by byte, with and without it. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, operatorCaller } from '../../src/core/caller.js';
import type { StoaError } from '../../src/core/errors.js';
import type { DirectoryFind } from '../../src/homes/directory/find/find.js';
import type { PostgresFind } from '../../src/homes/postgres/find/find.js';
import type { FindRequest } from '../../src/find/requests.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { sharedHome } from '../servers/shared.js';

const userOf = (user: string, namespaces: readonly string[] | null = null): Caller => ({
  ...operatorCaller(user),
  kind: 'user',
  everyUser: false,
  scopes: { write: true, namespaces },
});
const alice = userOf('alice');
const narrow = userOf('alice', ['mine']);
const bob = userOf('bob');
const roomKey = 'a key of sixteen bytes or more';

const requests = ['ibis', 'ibis heron', 'ib*', '"white ibis"', 'heron -ibis', 'the'].map((q) => ({ q }));

/** The numbers in a cursor. Its time is that of the search, and its score depends on that time. */
function statisticsIn(cursor: string | null): unknown {
  if (cursor === null) return null;
  const bytes = Buffer.from(cursor, 'base64url');
  const fields = JSON.parse(bytes.subarray(bytes.indexOf('[')).toString()) as unknown[];
  return fields.slice(1, 5);
}

describe.each(['a data directory', 'PostgreSQL'])('a search in %s', (home) => {
  let stoa: Stoa;
  let directory: string;
  const nowMs = Date.now();
  const settle = async (): Promise<void> => {
    if (home === 'PostgreSQL') await (stoa.find.port as PostgresFind).fileAll();
    else await (stoa.find.port as DirectoryFind).work.settle();
  };
  const clock = (): number => nowMs;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-leaks-'));
    const shared = { clock, sweepIntervalMs: 3_600_000, onError: () => undefined };
    stoa = await openStoa(
      home === 'PostgreSQL' ? { ...(await sharedHome()).options, ...shared } : { data: directory, ...shared },
    );
    await stoa.data.set(narrow, 'mine', 'a', { title: 'white ibis', text: 'the ibis waits' });
    await stoa.data.set(narrow, 'mine', 'b', 'a heron and the reeds');
    await stoa.data.set(narrow, 'mine', 'c', 'nothing of interest');
    for (const body of ['white ibis over the lake', 'an ibis'])
      await say(alice, { room: 'nests', byName: true }, body);
  });
  afterAll(async () => {
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  const say = (
    author: Caller,
    room: { room: string; key?: string; byName?: boolean },
    body: string,
  ): Promise<unknown> => stoa.messaging.rooms.post(author, room, () => ({ body, pid: '' }), null);

  /** Every page of every answer to a caller, with scores and cursors. */
  const answers = async (caller: Caller): Promise<string[]> => {
    const pages: string[] = [];
    for (const request of requests)
      for (const part of [{ in: ['data', 'tasks'] }, { in: ['messages'] }] as const)
        for (let cursor: string | undefined, isLast = false; !isLast;) {
          const page = await stoa.find.find(caller, { ...request, ...part, limit: 1, cursor });
          pages.push(JSON.stringify({ ...page, next_cursor: statisticsIn(page.next_cursor) }));
          cursor = page.next_cursor ?? undefined;
          isLast = cursor === undefined;
        }
    return pages;
  };

  it.each([
    [
      'documents of another user',
      narrow,
      async () => {
        for (let at = 0; at < 20; at += 1)
          await stoa.data.set(bob, 'mine', `x${at}`, 'the white ibis ibises iberia');
      },
    ],
    [
      'namespaces outside of the token',
      narrow,
      async () => {
        for (let at = 0; at < 20; at += 1)
          await stoa.data.set(alice, 'hidden', `x${at}`, 'the white ibis ibises iberia');
      },
    ],
    [
      'documents that were deleted',
      narrow,
      async () => {
        for (let at = 0; at < 20; at += 1)
          await stoa.data.set(narrow, 'mine', `x${at}`, 'the white ibis ibises');
        for (let at = 0; at < 20; at += 1) await stoa.data.delete(narrow, 'mine', `x${at}`);
      },
    ],
    [
      'documents that are not to be found',
      narrow,
      async () => {
        for (let at = 0; at < 20; at += 1)
          await stoa.data.set(narrow, 'mine', `quiet${at}`, 'the white ibis ibises', { index: false });
      },
    ],
    [
      'rooms of another user',
      alice,
      async () => {
        for (let at = 0; at < 5; at += 1) await say(bob, { room: 'bobs-room', byName: true }, 'white ibis');
      },
    ],
    [
      'rooms with a key',
      alice,
      async () => {
        for (const owner of ['alice', null]) {
          const room = { name: `keyed-${owner}`, is_private: true, key: roomKey, owner };
          const { id } = await stoa.messaging.rooms.create(alice, room, null);
          for (let at = 0; at < 5; at += 1) await say(alice, { room: id, key: roomKey }, 'the white ibis');
        }
      },
    ],
    [
      'tasks of another user',
      alice,
      async () => {
        const { id: workspaceId } = await stoa.workspaces.createWorkspace(bob, { name: 'w' });
        const { id: projectId } = await stoa.workspaces.createProject(bob, workspaceId, { name: 'p' });
        const { id: sessionId } = await stoa.workspaces.createSession(bob, projectId, { status: 'active' });
        await stoa.workspaces.createTask(bob, sessionId, { command: 'catch the white ibis' });
      },
    ],
  ])('tells nothing of %s', async (_what, caller, write) => {
    await settle();
    const before = await answers(caller);
    await write();
    expect(await answers(caller)).toEqual(before);
    await settle();
    expect(await answers(caller)).toEqual(before);
  });

  it('tells nothing of rooms with a key, to their own user and to others, also if the room is named', async () => {
    const key = roomKey;
    const own = await stoa.messaging.rooms.create(
      alice,
      { name: 'den', is_private: true, key, owner: 'alice' },
      null,
    );
    const open = await stoa.messaging.rooms.create(
      alice,
      { name: 'burrow', is_private: true, key, owner: null },
      null,
    );
    for (const room of [own.id, open.id]) await say(alice, { room, key }, 'secret pelican');
    for (const round of ['waiting', 'filed']) {
      for (const caller of [alice, bob])
        for (const room of [undefined, open.id, ...(caller === alice ? [own.id, 'den'] : [])]) {
          const page = await stoa.find.find(caller, {
            q: 'pelican',
            in: ['messages'],
            ...(room !== undefined && { room }),
          });
          expect([round, caller.user, room, page.items]).toEqual([round, caller.user, room, []]);
        }
      await settle();
    }
  });

  it('refuses what belongs to another user as it refuses what does not exist', async () => {
    const { id: workspaceId } = await stoa.workspaces.createWorkspace(bob, { name: 'hidden' });
    const project = await stoa.workspaces.createProject(bob, workspaceId, { name: 'p' });
    const room = await stoa.messaging.rooms.create(
      bob,
      { name: 'bobs-own', is_private: false, key: '', owner: 'bob' },
      null,
    );
    const { agent_id: agent } = await stoa.registry.createAgent(bob, { name: 'bobs-agent' });
    const refusal = async (names: Partial<FindRequest>): Promise<unknown> => {
      const error = await stoa.find.find(alice, { q: 'ibis', ...names }).catch((thrown: unknown) => thrown);
      const { code, message, fix } = error as StoaError;
      const texts = Object.values(names).map((name) => String(name).split('/')[0] as string);
      return texts.reduce((text, name) => text.replaceAll(name, '…'), JSON.stringify([code, message, fix]));
    };
    for (const [field, hidden, missing] of [
      ['room', room.id, randomUUID()],
      ['room', 'bobs-own', 'bobs-else'],
      ['project', project.id, project.id.replace(/.{4}$/, 'aaaa')],
      ['project', 'hidden/p', 'absent/p'],
      ['agent', agent, agent.split('').toReversed().join('')],
      ['agent', 'bobs-agent', 'bobs-robot'],
    ] as const)
      expect([field, await refusal({ [field]: hidden })]).toEqual([
        field,
        await refusal({ [field]: missing }),
      ]);
  });
});
