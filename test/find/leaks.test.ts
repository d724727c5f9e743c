/** A search tells nothing of what the caller may not read: the answer is the same, byte by byte, with and without it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, operatorCaller } from '../../src/core/caller.js';
import type { DirectoryFind } from '../../src/homes/directory/find/find.js';
import type { PostgresFind } from '../../src/homes/postgres/find/find.js';
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

const requests = ['ibis', 'ibis heron', 'ib*', '"white ibis"', 'heron -ibis', 'the'].map((q) => ({
  q,
  limit: 50,
}));

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
  });
  afterAll(async () => {
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  /** The answers of a caller, waiting and filed. */
  const answers = async (caller: Caller): Promise<string> => {
    const pages = [];
    for (const request of requests)
      pages.push(await stoa.find.find(caller, { ...request, in: ['data', 'tasks'] }));
    pages.push(await stoa.find.find(caller, { q: 'ibis', in: ['messages'] }));
    return JSON.stringify(pages);
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
        for (let at = 0; at < 5; at += 1)
          await stoa.messaging.rooms.post(
            bob,
            { room: 'bobs-room', byName: true },
            () => ({ body: 'white ibis', pid: '' }),
            null,
          );
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
    expect(await answers(caller)).toBe(before);
    await settle();
    expect(await answers(caller)).toBe(before);
  });

  it('tells nothing of rooms with a key, to their own user and to others, also if the room is named', async () => {
    const key = 'a key of sixteen bytes or more';
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
    for (const room of [own.id, open.id])
      await stoa.messaging.rooms.post(
        alice,
        { room, key },
        () => ({ body: 'secret pelican', pid: '' }),
        null,
      );
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
});
