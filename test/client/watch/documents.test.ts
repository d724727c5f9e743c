/** Watches of documents, and who may watch what. */
import { describe, expect, test } from 'vitest';
import { AgentKeys, type DocumentChange, Stoa, type WatchEvent } from '../../../src/client/index.js';
import { compareCodePoints } from '../../../src/datastore/documents/code-point-order.js';
import { Watched } from './watched.js';
import { useWatchedServer } from './watched-server.js';
import { eventually } from '../../until.js';

const server = useWatchedServer();

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

describe('documents', () => {
  test('a snapshot of many pages during writes, deletions and clears is followed by changes without a gap or a repeat', async () => {
    const ada = await server.clientOf('ada');
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
        await eventually(() => expect(written).toBeGreaterThanOrEqual(index * 60), 1);
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
    await eventually(() => {
      for (const { versions } of mirrors) expect(versions).toEqual(held);
    }, 100);
    stop.abort();
    await Promise.all(watches);
    expect([...kinds]).toEqual(expect.arrayContaining(['changes', 'live', 'snapshot']));
  }, 120_000);

  test('a key or a prefix is watched alone, and the operator without a user watches the default user', async () => {
    const ada = await server.clientOf('ada');
    const operator = new Stoa({ url: server.running.url, token: server.running.operator });
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
    await eventually(() =>
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
    const ada = await server.clientOf('ada');
    const data = ada.data<number>('resumed');
    await data.set('before', 1);
    const first = await new Watched((signal) => ada.watch({ data: { namespace: 'resumed' }, signal })).live();
    await data.set('seen', 1);
    await eventually(() => expect(first.changes).toHaveLength(1));
    await first.stop();
    const last = first.events.findLast((event) => event.kind === 'changes');
    await data.set('missed', 1);
    const second = await new Watched((signal) =>
      ada.watch({ data: { namespace: 'resumed' }, since: last?.position, signal }),
    ).live();
    await eventually(() => expect(second.changes.map(({ key }) => key)).toEqual(['missed']));
    expect(second.snapshot).toEqual([]);
    await second.stop();
  });
});

describe('who sees what', () => {
  test('each user gets only its own documents, agents and tasks', async () => {
    const users = await Promise.all(
      Array.from({ length: 8 }, (_, index) => server.clientOf(`user-${index}`)),
    );
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
    await eventually(() => {
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
    });
    for (const { data, agents, tasks } of watches)
      await Promise.all([data.stop(), agents.stop(), tasks.stop()]);
    const others = new Watched((signal) =>
      (users[0] as Stoa).watch({ tasks: { project: projects[1]?.project.id ?? '' }, signal }),
    );
    await expect(others.done).rejects.toMatchObject({ code: 'not_found' });
    // A position gives no access to the records of others.
    const since = await server.running.stoa.changes.newest();
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
    const scoped = await server.clientOf('scoped', { namespaces: ['open'] });
    const whole = await server.clientOf('scoped');
    const open = await new Watched((signal) => scoped.watch({ data: { namespace: 'open' }, signal })).live();
    await expect(
      new Watched((signal) => scoped.watch({ data: { namespace: 'closed' }, signal })).done,
    ).rejects.toMatchObject({ code: 'forbidden' });
    const since = await server.running.stoa.changes.newest();
    const resumed = await new Watched((signal) =>
      scoped.watch({ data: { namespace: 'closed' }, since, signal }),
    ).live();
    await whole.data('closed').set('k', 1);
    await whole.data('open').set('k', 1);
    await eventually(() => expect(open.changes).toHaveLength(1));
    await eventually(() => expect(resumed.events.length).toBeGreaterThan(1));
    expect(resumed.changes).toEqual([]);
    await Promise.all([open.stop(), resumed.stop()]);
  });

  test('a signed agent gets only its own record', async () => {
    const alice = new Stoa({ url: server.running.url, token: server.running.alice });
    const [own, other] = [
      await alice.agents.create({ name: 'own' }),
      await alice.agents.create({ name: 'other' }),
    ];
    const signed = new Stoa({
      url: server.running.url,
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
    await eventually(() => expect(watched.changes.map(({ id }) => id)).toEqual([own.agent_id]));
    await watched.stop();
  });

  test('a private room is watched with its key, and not without', async () => {
    const owner = new Stoa({ url: server.running.url }).agent(await AgentKeys.generate());
    await owner.register({ name: 'owner' });
    const { id } = await owner.rooms.create({
      name: 'quiet',
      public: true,
      is_private: true,
      key: 'a key of sixteen or more',
    });
    const ada = await server.clientOf('ada');
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
    await eventually(() =>
      expect(watched.changes).toMatchObject([{ kind: 'message', message: { body: 'psst' } }]),
    );
    await watched.stop();
  });
});
