/** Watches of agents and tasks. */
import { expect, test } from 'vitest';
import type { ChangeItem, WatchEvent } from '../../../src/client/index.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { Watched } from './watched.js';
import { told, useWatchedServer } from './watched-server.js';
import { eventually } from '../../until.js';

const server = useWatchedServer();

test('agents: the current ones, then their changes', async () => {
  const ada = await server.clientOf('registrar');
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
  await eventually(() =>
    expect([told(watched.changes), told(one.changes)]).toEqual([
      [['agent.created', late.agent_id], ...ofThere],
      ofThere,
    ]),
  );
  await Promise.all([watched.stop(), one.stop()]);
});

test('tasks of a project: those of every session, then their changes, until the project is deleted', async () => {
  const ada = await server.clientOf('worker');
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
  await eventually(() =>
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
  const ada = await server.clientOf('crowd');
  const caller = operatorCaller('crowd');
  const workspace = await ada.workspaces.create({ name: 'crowd', project_path: '/w' });
  const project = await ada.projects.create(workspace.id, { name: 'p' });
  const session = await ada.sessions.create(project.id, { status: 'active' });
  const tasks = await Promise.all(
    Array.from({ length: 350 }, (_, index) =>
      server.running.stoa.workspaces.createTask(caller, session.id, { command: String(index) }),
    ),
  );
  const agents = await Promise.all(
    Array.from({ length: 1_100 }, (_, index) =>
      server.running.stoa.registry.createAgent(caller, { name: `agent-${index}` }),
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
      await server.running.stoa.workspaces.updateTask(caller, task.id, { priority: (written += 1) }, {});
    for (const agent of ends(agents).slice(round % 8, (round % 8) + 4))
      await server.running.stoa.registry.updateAgent(caller, agent.agent_id, {
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
  await eventually(() => {
    for (const { kind, versions } of mirrors) expect(versions.held).toEqual(held[kind]);
  }, 100);
  stop.abort();
  await Promise.all(watches);
}, 120_000);
