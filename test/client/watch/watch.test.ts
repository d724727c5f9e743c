import { kernelOf } from '../../kernel-of.js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  AgentKeys,
  type ChangeItem,
  type DocumentChange,
  Stoa,
  type WatchEvent,
} from '../../../src/client/index.js';
import { compareCodePoints } from '../../../src/datastore/documents/code-point-order.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { Running } from '../../server/running.js';
import { type Gate, startGate } from '../../servers/gate.js';
import { Watched } from './watched.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';

let running: Running;
let gate: Gate;
beforeAll(async () => {
  running = await Running.start({ limits: { streamHeartbeatSeconds: 0.05, agentsPerUserMax: 10_000 } });
  gate = await startGate(running.url);
});
afterAll(async () => {
  await gate.close();
  await running.stop();
});

async function clientOf(user: string, options: { url?: string; namespaces?: string[] } = {}): Promise<Stoa> {
  const scopes = { write: true, ...(options.namespaces !== undefined && { namespaces: options.namespaces }) };
  const { token } = await running.stoa.identity.createToken(operatorCaller(), user, { scopes }, null);
  return new Stoa({ url: options.url ?? running.url, token, agent: 'tester', retryDelayMs: 5 });
}

/** The state of a reader that applies every event; a repeat or a gap is an error. */
class Mirror {
  readonly versions = new Map<string, number>();

  take(event: WatchEvent<{ key: string; version: number }, DocumentChange>): void {
    if (event.kind === 'resync') this.versions.clear();
    else if (event.kind === 'snapshot') for (const { key, version } of event.items) this.#list(key, version);
    else if (event.kind === 'changes') for (const change of event.items) this.#change(change);
  }

  #list(key: string, version: number): void {
    expect([key, this.versions.get(key)]).toEqual([key, undefined]);
    this.versions.set(key, version);
  }

  #change({ kind, key, version, after, through }: DocumentChange): void {
    if (kind === 'set') {
      expect([key, version]).toEqual([key, (this.versions.get(String(key)) ?? 0) + 1]);
      this.versions.set(String(key), Number(version));
    } else if (kind === 'deleted') {
      expect([key, this.versions.delete(String(key))]).toEqual([key, true]);
    } else {
      for (const held of this.versions.keys()) {
        if (
          (after === undefined || compareCodePoints(held, after) > 0) &&
          (through === undefined || compareCodePoints(held, through) <= 0)
        )
          this.versions.delete(held);
      }
    }
  }
}

function told(changes: readonly ChangeItem[]): string[][] {
  return changes.map(({ kind, id }) => [kind, id]);
}

describe('documents', () => {
  test('a snapshot of many pages during writes, deletions and clears is followed by changes without a gap or a repeat', async () => {
    const ada = await clientOf('ada');
    const data = ada.data<number>('busy');
    const keys = Array.from({ length: 1_500 }, (_, index) => `k${String(index).padStart(4, '0')}`);
    const fill = async () => {
      for (let start = 0; start < keys.length; start += 500)
        await data.setMany(Object.fromEntries(keys.slice(start, start + 500).map((key) => [key, 0])));
    };
    await fill();
    // Of the first page, which is soon listed, and of the last.
    const busy = [...keys.slice(0, 40), ...keys.slice(-40)];
    const random = () => busy[Math.floor(Math.random() * busy.length)] as string;
    let written = 0;
    let begun = 0;
    const mirrors = Array.from({ length: 4 }, () => new Mirror());
    const stop = new AbortController();
    const kinds = new Set<string>();
    const live = new Set<number>();
    const watches = mirrors
      .map(async (mirror, index) => {
        // Each begins at another moment of the writing.
        await vi.waitFor(() => expect(written).toBeGreaterThanOrEqual(index * 60), {
          timeout: 60_000,
          interval: 1,
        });
        for await (const event of ada.watch<number>({ data: { namespace: 'busy' }, signal: stop.signal })) {
          if (event.kind === 'live' && !live.has(index)) begun = live.add(index).size;
          kinds.add(event.kind);
          mirror.take(event);
        }
      })
      .map((watch) => watch.finally(() => stop.abort()));
    const writers = Array.from({ length: 4 }, async () => {
      // Until every watch has been through its snapshot, and some more.
      for (let more = 20; more > 0 && !stop.signal.aborted; more -= begun === mirrors.length ? 1 : 0) {
        written += 1;
        if (written === 30) {
          await data.clear();
          await fill();
        } else if (written % 3 === 0) await data.delete(random());
        else await data.set(random(), written);
      }
    });
    await Promise.race([Promise.all(writers), Promise.all(watches)]);
    const held = new Map<string, number>();
    for await (const { key, version } of data.entries()) held.set(key, version);
    await vi.waitFor(
      () => {
        for (const { versions } of mirrors) expect(versions).toEqual(held);
      },
      { timeout: 10_000, interval: 100 },
    );
    stop.abort();
    await Promise.all(watches);
    expect([...kinds]).toEqual(expect.arrayContaining(['changes', 'live', 'snapshot']));
  }, 120_000);

  test('a key or a prefix is watched alone, and the operator without a user watches the default user', async () => {
    const ada = await clientOf('ada');
    const operator = new Stoa({ url: running.url, token: running.operator });
    const [mine, defaults] = [ada.data<number>('narrow'), operator.data<number>('narrow')];
    await mine.setMany({ a: 1, 'a/1': 1, 'a/2': 1, b: 1 });
    const key = await new Watched((signal) =>
      ada.watch({ data: { namespace: 'narrow', key: 'a' }, signal }),
    ).live();
    const prefix = await new Watched((signal) =>
      ada.watch({ data: { namespace: 'narrow', prefix: 'a/' }, signal }),
    ).live();
    const all = await new Watched((signal) =>
      operator.watch({ data: { namespace: 'narrow' }, signal }),
    ).live();
    await mine.set('a', 2);
    await mine.set('a/2', 2);
    await mine.set('b', 2);
    await defaults.set('d', 1);
    await vi.waitFor(() =>
      expect([key, prefix, all].map(({ changes }) => changes.map((change) => change.key))).toEqual([
        ['a'],
        ['a/2'],
        ['d'],
      ]),
    );
    expect([key, prefix, all].map(({ snapshot }) => snapshot.map((item) => item.key))).toEqual([
      ['a'],
      ['a/1', 'a/2'],
      [],
    ]);
    await Promise.all([key.stop(), prefix.stop(), all.stop()]);
    expect(() =>
      ada.watch({ data: { key: 'a', prefix: 'a' }, signal: new AbortController().signal }),
    ).toThrow(/both a key and a prefix/);
  });

  test('a watch from a position has no snapshot', async () => {
    const ada = await clientOf('ada');
    const data = ada.data<number>('resumed');
    await data.set('before', 1);
    const first = await new Watched((signal) => ada.watch({ data: { namespace: 'resumed' }, signal })).live();
    await data.set('seen', 1);
    await vi.waitFor(() => expect(first.changes).toHaveLength(1));
    await first.stop();
    const last = first.events.findLast((event) => event.kind === 'changes');
    await data.set('missed', 1);
    const second = await new Watched((signal) =>
      ada.watch({ data: { namespace: 'resumed' }, since: last?.position, signal }),
    ).live();
    await vi.waitFor(() => expect(second.changes.map(({ key }) => key)).toEqual(['missed']));
    expect(second.snapshot).toEqual([]);
    await second.stop();
  });
});

describe('who sees what', () => {
  test('each user gets only its own documents, agents and tasks', async () => {
    const users = await Promise.all(Array.from({ length: 8 }, (_, index) => clientOf(`user-${index}`)));
    const projects = await Promise.all(
      users.map(async (stoa) => {
        const workspace = await stoa.workspaces.create({ name: 'w', project_path: '/w' });
        const project = await stoa.projects.create(workspace.id, { name: 'p' });
        return { project, session: await stoa.sessions.create(project.id, { status: 'active' }) };
      }),
    );
    const watches = await Promise.all(
      users.map(async (stoa, index) => ({
        data: await new Watched((signal) =>
          stoa.watch({ data: { namespace: 'shared-name' }, signal }),
        ).live(),
        agents: await new Watched((signal) => stoa.watch({ agents: {}, signal })).live(),
        tasks: await new Watched((signal) =>
          stoa.watch({ tasks: { project: projects[index]?.project.id ?? '' }, signal }),
        ).live(),
      })),
    );
    const made = await Promise.all(
      users.map(async (stoa, index) => {
        await stoa.data('shared-name').set(`key-${index}`, index);
        const agent = await stoa.agents.create({ name: `agent-${index}` });
        const task = await stoa.tasks.create(projects[index]?.session.id ?? '', { command: 'true' });
        return { agent: agent.agent_id, task: task.id };
      }),
    );
    await vi.waitFor(
      () => {
        for (const [index, { data, agents, tasks }] of watches.entries()) {
          expect(data.changes.map(({ key }) => key)).toEqual([`key-${index}`]);
          expect(agents.changes.map(({ kind, id }) => [kind, id])).toEqual([
            ['agent.created', made[index]?.agent],
          ]);
          expect(tasks.changes.map(({ kind, id }) => [kind, id])).toContainEqual([
            'task.created',
            made[index]?.task,
          ]);
          expect(new Set(tasks.changes.map(({ id }) => id))).toEqual(new Set([made[index]?.task]));
        }
      },
      { timeout: 10_000 },
    );
    for (const { data, agents, tasks } of watches)
      await Promise.all([data.stop(), agents.stop(), tasks.stop()]);
    const others = new Watched((signal) =>
      (users[0] as Stoa).watch({ tasks: { project: projects[1]?.project.id ?? '' }, signal }),
    );
    await expect(others.done).rejects.toMatchObject({ code: 'not_found' });
    // A position gives no access to the records of others.
    const since = await running.stoa.changes.newest();
    const resumed = new Watched((signal) =>
      (users[0] as Stoa).watch({
        tasks: { project: projects[1]?.project.id ?? '' },
        since,
        signal,
      }),
    );
    await expect(resumed.done).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a token for some namespaces gets their changes, and is refused other namespaces', async () => {
    const scoped = await clientOf('scoped', { namespaces: ['open'] });
    const whole = await clientOf('scoped');
    const open = await new Watched((signal) => scoped.watch({ data: { namespace: 'open' }, signal })).live();
    await expect(
      new Watched((signal) => scoped.watch({ data: { namespace: 'closed' }, signal })).done,
    ).rejects.toMatchObject({ code: 'forbidden' });
    const since = await running.stoa.changes.newest();
    const resumed = await new Watched((signal) =>
      scoped.watch({ data: { namespace: 'closed' }, since, signal }),
    ).live();
    await whole.data('closed').set('k', 1);
    await whole.data('open').set('k', 1);
    await vi.waitFor(() => expect(open.changes).toHaveLength(1));
    await vi.waitFor(() => expect(resumed.events.length).toBeGreaterThan(1));
    expect(resumed.changes).toEqual([]);
    await Promise.all([open.stop(), resumed.stop()]);
  });

  test('a signed agent gets only its own record', async () => {
    const alice = new Stoa({ url: running.url, token: running.alice });
    const [own, other] = [
      await alice.agents.create({ name: 'own' }),
      await alice.agents.create({ name: 'other' }),
    ];
    const signed = new Stoa({
      url: running.url,
      fetch: (input, init) =>
        fetch(input, {
          ...init,
          headers: { ...Object.fromEntries(new Headers(init?.headers)), 'x-test-agent': own.agent_id },
        }),
    });
    const watched = await new Watched((signal) => signed.watch({ agents: {}, signal })).live();
    expect(watched.snapshot.map(({ agent_id }) => agent_id)).toEqual([own.agent_id]);
    await alice.agents.update(other.agent_id, { labels: { a: 'b' } });
    await alice.agents.update(own.agent_id, { labels: { a: 'b' } });
    await vi.waitFor(() => expect(watched.changes.map(({ id }) => id)).toEqual([own.agent_id]));
    await watched.stop();
  });

  test('a private room is watched with its key, and not without', async () => {
    const owner = new Stoa({ url: running.url }).agent(await AgentKeys.generate());
    await owner.register({ name: 'owner' });
    const { id } = await owner.rooms.create({
      name: 'quiet',
      public: true,
      is_private: true,
      key: 'a key of sixteen or more',
    });
    const ada = await clientOf('ada');
    await expect(new Watched((signal) => ada.watch({ room: { id }, signal })).done).rejects.toMatchObject({
      code: 'forbidden',
    });
    await expect(
      new Watched((signal) => ada.watch({ room: { id }, since: '1', signal })).done,
    ).rejects.toMatchObject({ code: 'forbidden' });
    const watched = await new Watched((signal) =>
      ada.watch({ room: { id, key: 'a key of sixteen or more' }, signal }),
    ).live();
    await owner.room(id, 'a key of sixteen or more').post('psst');
    await vi.waitFor(() =>
      expect(watched.changes).toMatchObject([{ kind: 'message', message: { body: 'psst' } }]),
    );
    await watched.stop();
  });
});

test('agents: the current ones, then their changes', async () => {
  const ada = await clientOf('registrar');
  const there = await ada.agents.create({ name: 'there' });
  const watched = await new Watched((signal) => ada.watch({ agents: {}, signal })).live();
  const one = await new Watched((signal) => ada.watch({ agents: { id: there.agent_id }, signal })).live();
  // The client's first write made an agent of its own.
  expect(watched.snapshot.map(({ name }) => name).toSorted()).toEqual(['tester', 'there']);
  expect(one.snapshot).toMatchObject([{ agent_id: there.agent_id, version: 1 }]);
  expect(watched.snapshot).toContainEqual(one.snapshot[0]);
  const late = await ada.agents.create({ name: 'late' });
  await ada.agents.update(there.agent_id, { status: 'error' });
  await ada.agents.delete(there.agent_id);
  const ofThere = [
    ['agent.transitioned', there.agent_id],
    ['agent.deleted', there.agent_id],
  ];
  await vi.waitFor(() =>
    expect([told(watched.changes), told(one.changes)]).toEqual([
      [['agent.created', late.agent_id], ...ofThere],
      ofThere,
    ]),
  );
  await Promise.all([watched.stop(), one.stop()]);
});

test('tasks of a project: those of every session, then their changes, until the project is deleted', async () => {
  const ada = await clientOf('worker');
  const workspace = await ada.workspaces.create({ name: 'watched', project_path: '/w' });
  const [project, elsewhere] = [
    await ada.projects.create(workspace.id, { name: 'p' }),
    await ada.projects.create(workspace.id, { name: 'q' }),
  ];
  const [session, older, other] = [
    await ada.sessions.create(project.id, { status: 'active' }),
    await ada.sessions.create(project.id),
    await ada.sessions.create(elsewhere.id, { status: 'active' }),
  ];
  const first = await ada.tasks.create(session.id, { command: 'one' });
  await ada.tasks.create(older.id, { command: 'kept' });
  const second = await ada.tasks.create(session.id, { command: 'two', depends_on: [first.id] });
  const watched = await new Watched((signal) => ada.watch({ tasks: { project: project.id }, signal })).live();
  expect(watched.snapshot.map(({ command }) => command).toSorted()).toEqual(['kept', 'one', 'two']);
  await ada.tasks.create(other.id, { command: 'not ours' });
  const claim = await ada.tasks.claim(project.id);
  await claim?.complete({ output: 'done' });
  await vi.waitFor(() =>
    expect(watched.changes.map(({ kind, id }) => [kind, id])).toContainEqual(['task.ready', second.id]),
  );
  await ada.sessions.delete(older.id);
  await ada.workspaces.delete(workspace.id);
  await watched.done;
  const kinds = watched.changes.map(({ kind }) => kind);
  expect(kinds.slice(-2)).toEqual(['session.deleted', 'workspace.deleted']);
  expect(
    watched.changes
      .filter(({ kind }) => kind.startsWith('task.'))
      .every(({ facts }) => facts?.['project'] === project.id),
  ).toBe(true);
});

/** Of the first page, which is soon listed, and of the last. */
function ends<Item>(items: readonly Item[]): Item[] {
  return [...items.slice(0, 20), ...items.slice(-20)];
}

/** The versions that a reader holds of things whose every change makes the next version. */
class Versions {
  readonly held = new Map<string, number>();

  take(event: WatchEvent<{ id: string; version: number }, ChangeItem>): void {
    if (event.kind === 'snapshot') {
      for (const { id, version } of event.items) {
        expect([id, this.held.has(id)]).toEqual([id, false]);
        this.held.set(id, version);
      }
    } else if (event.kind === 'changes') {
      for (const { kind, id, version } of event.items) {
        // It makes no new version.
        if (kind === 'task.ready') continue;
        expect([kind, id, version]).toEqual([kind, id, (this.held.get(id) ?? 0) + 1]);
        this.held.set(id, Number(version));
      }
    }
  }
}

test('tasks and agents that change during the snapshot are sent without a gap or a repeat', async () => {
  const ada = await clientOf('crowd');
  const caller = operatorCaller('crowd');
  const workspace = await ada.workspaces.create({ name: 'crowd', project_path: '/w' });
  const project = await ada.projects.create(workspace.id, { name: 'p' });
  const session = await ada.sessions.create(project.id, { status: 'active' });
  const tasks = await Promise.all(
    Array.from({ length: 350 }, (_, index) =>
      running.stoa.workspaces.createTask(caller, session.id, { command: String(index) }),
    ),
  );
  const agents = await Promise.all(
    Array.from({ length: 1_100 }, (_, index) =>
      running.stoa.registry.createAgent(caller, { name: `agent-${index}` }),
    ),
  );
  const stop = new AbortController();
  const mirrors: { kind: 'tasks' | 'agents'; versions: Versions }[] = [];
  const begun = new Set<Versions>();
  let written = 0;
  const open = async (kind: 'tasks' | 'agents') => {
    const versions = new Versions();
    mirrors.push({ kind, versions });
    const events =
      kind === 'tasks'
        ? ada.watch({ tasks: { project: project.id }, signal: stop.signal })
        : ada.watch({ agents: {}, signal: stop.signal });
    for await (const event of events) {
      if (event.kind === 'live') begun.add(versions);
      // An agent names its id otherwise.
      versions.take(
        event.kind === 'snapshot'
          ? {
              kind: 'snapshot',
              items: event.items.map((item) => ({
                id: 'agent_id' in item ? item.agent_id : item.id,
                version: item.version,
              })),
            }
          : event,
      );
    }
  };
  const watches: Promise<void>[] = [];
  for (let round = 0; begun.size < 6 || round < 60; round += 1) {
    if (round % 10 === 0 && watches.length < 6)
      watches.push(open(watches.length % 2 === 0 ? 'tasks' : 'agents').finally(() => stop.abort()));
    expect(stop.signal.aborted).toBe(false);
    for (const task of ends(tasks).slice(round % 8, (round % 8) + 4))
      await running.stoa.workspaces.updateTask(caller, task.id, { priority: (written += 1) }, {});
    for (const agent of ends(agents).slice(round % 8, (round % 8) + 4))
      await running.stoa.registry.updateAgent(caller, agent.agent_id, {
        labels: { n: String((written += 1)) },
      });
    if (round % 5 === 0) await ada.tasks.create(session.id, { command: 'late' });
  }
  const held = { tasks: new Map<string, number>(), agents: new Map<string, number>() };
  for (let cursor: string | undefined, more = true; more;) {
    const page = await ada.tasks.inSession(session.id, { limit: 100, cursor });
    for (const { id, version } of page.items) held.tasks.set(id, version);
    cursor = page.next_cursor ?? undefined;
    more = cursor !== undefined;
  }
  for (let cursor: string | undefined, more = true; more;) {
    const page = await ada.agents.list({ limit: 1_000, ...(cursor !== undefined && { cursor }) });
    for (const { agent_id, version } of page.items) held.agents.set(agent_id, version);
    cursor = page.next_cursor ?? undefined;
    more = cursor !== undefined;
  }
  await vi.waitFor(
    () => {
      for (const { kind, versions } of mirrors) expect(versions.held).toEqual(held[kind]);
    },
    { timeout: 10_000, interval: 100 },
  );
  stop.abort();
  await Promise.all(watches);
}, 120_000);

test('a room: its newest messages, then new and deleted ones, also of the time without a connection', async () => {
  const author = new Stoa({ url: running.url }).agent(await AgentKeys.generate());
  await author.register({ name: 'author' });
  const { id } = await author.rooms.create({ name: 'watched-room', public: true });
  const room = author.room(id);
  const posted = [await room.post('one'), await room.post('two')];
  const through = await clientOf('ada', { url: gate.url });
  const watched = await new Watched((signal) => through.watch({ room: { id }, signal })).live();
  expect(watched.snapshot.map(({ body }) => body)).toEqual(['one', 'two']);
  await room.post('three');
  await vi.waitFor(() =>
    expect(watched.changes).toMatchObject([{ kind: 'message', message: { body: 'three' } }]),
  );
  await gate.close();
  await room.delete(posted[0]?.id ?? '');
  await room.post('four');
  await gate.open();
  await vi.waitFor(() => expect(watched.changes).toHaveLength(3), { timeout: 10_000 });
  expect(watched.changes.slice(1)).toEqual(
    expect.arrayContaining([
      { kind: 'deleted', id: posted[0]?.id },
      { kind: 'message', message: expect.objectContaining({ body: 'four' }) },
    ]),
  );
  await room.delete(posted[1]?.id ?? '');
  await vi.waitFor(() => expect(watched.changes.at(-1)).toEqual({ kind: 'deleted', id: posted[1]?.id }));
  const { position } = watched.events.findLast((event) => event.kind === 'changes') ?? {};
  await watched.stop();
  await room.post('five');
  const resumed = await new Watched((signal) =>
    through.watch({ room: { id }, since: position, signal }),
  ).live();
  await vi.waitFor(() =>
    expect(resumed.changes).toMatchObject([{ kind: 'message', message: { body: 'five' } }]),
  );
  expect(resumed.snapshot).toEqual([]);
  await resumed.stop();
});

test('a reader that returns too late, or was too slow, gets a resync and a new snapshot', async () => {
  const small = await Running.start({
    limits: { feedBytesMax: 20_000, streamHeartbeatSeconds: 0.05, streamStallSecondsMax: 0.2 },
  });
  try {
    const stoa = new Stoa({ url: small.url, token: small.alice, retryDelayMs: 5 });
    const data = stoa.data<number>('n');
    await data.set('k', 1);
    const old = await small.stoa.changes.newest();
    const flood = async () => {
      const id = 'x'.repeat(1_000);
      for (let made = 0; made < 40; made += 1) {
        await kernelOf(small.stoa).root.transact((tx) => {
          for (let change = 0; change < 1_000; change += 1)
            tx.change({
              domain: 'data',
              kind: 'document.set',
              id,
              user: 'alice',
              version: 1,
              facts: { namespace: 'n', key: 'flood' },
            });
        });
      }
      await kernelOf(small.stoa).trim();
    };
    await flood();
    const late = new Watched((signal) => stoa.watch({ data: { namespace: 'n' }, since: old, signal }));
    await late.live();
    expect(late.events.slice(0, 3)).toMatchObject([
      { kind: 'resync' },
      { kind: 'snapshot', items: [{ key: 'k' }] },
      { kind: 'live' },
    ]);
    await late.stop();

    // This reader stops reading; the server keeps neither its events nor its stream.
    const stop = new AbortController();
    const slow = stoa.watch({ data: { namespace: 'n' }, signal: stop.signal });
    const kinds: string[] = [];
    while (kinds.at(-1) !== 'live') kinds.push(String((await slow.next()).value?.kind));
    await data.set('k', 2);
    expect((await slow.next()).value).toMatchObject({ kind: 'changes', items: [{ key: 'k', version: 2 }] });
    expect(small.app.stoaServer.streams.count).toBe(1);
    while (small.app.stoaServer.streams.count > 0) await flood();
    while (kinds.at(-1) !== 'resync') kinds.push(String((await slow.next()).value?.kind));
    expect((await slow.next()).value).toMatchObject({ kind: 'snapshot', items: [{ key: 'k' }] });
    stop.abort();
    await slow.return(undefined);
  } finally {
    await small.stop();
  }
}, 60_000);

test('a reader of a room learns which of its messages were deleted while it was disconnected', async () => {
  const author = new Stoa({ url: running.url }).agent(await AgentKeys.generate());
  await author.register({ name: 'author' });
  const { id: roomId } = await author.rooms.create({ name: 'long', public: true });
  const post = async (count: number) => {
    const ids: string[] = [];
    for (let made = 0; made < count; made += 1)
      ids.push(
        (
          await writtenPort(running.stoa.messaging).post({
            roomId,
            from: author.id,
            body: String(made),
            parentId: null,
            proof: null,
            serverSigned: false,
          })
        ).id,
      );
    return ids;
  };
  const early = await post(50);
  const through = await clientOf('ada', { url: gate.url });
  const watched = await new Watched((signal) => through.watch({ room: { id: roomId }, signal })).live();
  const later = await post(650);
  await vi.waitFor(() => expect(watched.changes).toHaveLength(650), { timeout: 20_000 });
  await gate.close();
  const gone = [early[3], later[0], later[300], later.at(-1)].map(String);
  for (const id of gone) await author.room(roomId).delete(id);
  await gate.open();
  await vi.waitFor(
    () => expect(watched.changes.slice(650)).toEqual(gone.map((id) => ({ kind: 'deleted', id }))),
    { timeout: 20_000 },
  );
  await watched.stop();
}, 60_000);

test('a reader of a room that is far behind gets everything over one connection', async () => {
  const small = await Running.start({
    limits: { messageBytesMax: 60_000, messageBytesPerMinuteMax: 1e9, streamBufferBytesMax: 100_000 },
  });
  try {
    const author = new Stoa({ url: small.url }).agent(await AgentKeys.generate());
    await author.register({ name: 'author' });
    const { id: roomId } = await author.rooms.create({ name: 'far', public: true });
    for (let made = 0; made < 250; made += 1)
      await writtenPort(small.stoa.messaging).post({
        roomId,
        from: author.id,
        body: `${made} ${'x'.repeat(20_000)}`,
        parentId: null,
        proof: null,
        serverSigned: false,
      });
    let connections = 0;
    const counted: typeof fetch = (input, init) => {
      if (String(input).includes('/messages')) connections += 1;
      return fetch(input, init);
    };
    const behind = new Watched((signal) =>
      new Stoa({ url: small.url, token: small.alice, fetch: counted }).watch({
        room: { id: roomId },
        since: '1',
        signal,
      }),
    );
    await vi.waitFor(() => expect(behind.changes).toHaveLength(250), { timeout: 30_000 });
    expect(
      behind.changes.map((change) =>
        change.kind === 'message' ? Number.parseInt(change.message.body, 10) : change.kind,
      ),
    ).toEqual(Array.from({ length: 250 }, (_, index) => index));
    expect(connections).toBe(1);
    await behind.stop();
  } finally {
    await small.stop();
  }
}, 60_000);

test('a reader of a room that stops reading is disconnected, and still gets every message once', async () => {
  const small = await Running.start({
    limits: {
      messageBytesMax: 60_000,
      messageBytesPerMinuteMax: 1e9,
      roomReadsPerMinuteMax: 10_000,
      addressRequestsPerMinuteMax: 100_000,
    },
  });
  try {
    const author = new Stoa({ url: small.url }).agent(await AgentKeys.generate());
    await author.register({ name: 'author' });
    const { id: roomId } = await author.rooms.create({ name: 'flood', public: true });
    const stop = new AbortController();
    const slow = new Stoa({ url: small.url, token: small.alice }).watch({
      room: { id: roomId },
      signal: stop.signal,
    });
    expect((await slow.next()).value).toMatchObject({ kind: 'live' });
    expect((await slow.next()).value).toMatchObject({ kind: 'live' });
    expect(small.app.stoaServer.streams.count).toBe(1);
    let posted = 0;
    while (small.app.stoaServer.streams.count > 0 || posted < 100) {
      await writtenPort(small.stoa.messaging).post({
        roomId,
        from: author.id,
        body: `${posted} ${'x'.repeat(50_000)}`,
        parentId: null,
        proof: null,
        serverSigned: false,
      });
      posted += 1;
    }
    const got: number[] = [];
    while (got.length < posted) {
      const { value } = await slow.next();
      if (value?.kind === 'changes')
        for (const item of value.items)
          if (item.kind === 'message') got.push(Number.parseInt(item.message.body, 10));
    }
    expect(got).toEqual(Array.from({ length: posted }, (_, index) => index));
    stop.abort();
    await slow.return(undefined);
  } finally {
    await small.stop();
  }
}, 60_000);
