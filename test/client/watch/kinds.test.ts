/** Compares every kind of change in the feed with the events of each watch. */
import { kernelOf } from '../../kernel-of.js';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  AgentKeys,
  type ChangeItem,
  type DocumentChange,
  type RoomChange,
  Stoa,
} from '../../../src/client/index.js';
import { documentSet } from '../../../src/datastore/changes.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { Running } from '../../server/running.js';
import { linesOf } from '../../transfer/kit.js';
import { Watched } from './watched.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';
import { eventually } from '../../until.js';
import { linkIdentity, unlinkIdentity } from '../../../src/registry/conformance/bench.js';

const user = 'alice';
const caller = operatorCaller(user);
let running: Running;
let directory: string;
let alice: Stoa;

beforeAll(async () => {
  running = await Running.start({
    limits: { streamHeartbeatSeconds: 0.05, leaseSeconds: 0.3, leaseGraceSeconds: 0.1 },
    sweepIntervalMs: 20,
  });
  directory = await mkdtemp(join(tmpdir(), 'stoa-kinds-'));
  alice = new Stoa({ url: running.url, token: running.alice, agent: 'tester', retryDelayMs: 5 });
});
afterAll(async () => {
  await running.stop();
  await rm(directory, { recursive: true });
});

/** Runs the given action, then imports the state from before it. */
async function overwritten(change: () => Promise<unknown>): Promise<void> {
  const path = join(directory, 'before.ndjson');
  await writeFile(path, (await linesOf(running.stoa, { withSecrets: true })).join(''));
  await change();
  await running.stoa.transfer.import(operatorCaller(), path, { onConflict: 'replace' });
}

/** What the feed holds since a position, for those who may see everything. */
async function feedSince(since: string): Promise<ChangeItem[]> {
  return (await running.stoa.changes.read(operatorCaller(), { since, limit: 1_000 })).items;
}

function factsOf({ kind, key, version }: DocumentChange): unknown[] {
  return [kind, key, version];
}

function wordsOf(change: RoomChange): string {
  return change.kind === 'message' ? change.message.body : change.kind;
}

/** As backends do whose feed follows their writes. */
function tellLate(key: string, version: number): Promise<void> {
  return kernelOf(running.stoa).root.transact((tx) =>
    tx.change(documentSet({ user, namespace: 'late' }, key, version)),
  );
}

async function expectTold(
  watched: Watched<unknown, ChangeItem>,
  since: string,
  isMeant: (change: ChangeItem) => boolean,
  kinds: readonly string[],
): Promise<void> {
  const expected = (await feedSince(since)).filter(isMeant).map(({ kind, id, seq }) => [kind, id, seq]);
  expect([...new Set(expected.map(([kind]) => kind))].toSorted()).toEqual(kinds.toSorted());
  await eventually(() =>
    expect(watched.changes.map(({ kind, id, seq }) => [kind, id, seq])).toEqual(expected),
  );
}

test('the watch of a project sends every kind of change of its tasks', async () => {
  const workspace = await alice.workspaces.create({ name: 'kinds', project_path: '/w' });
  const [project, other] = [
    await alice.projects.create(workspace.id, { name: 'p' }),
    await alice.projects.create(workspace.id, { name: 'q' }),
  ];
  const [session, emptied, elsewhere] = [
    await alice.sessions.create(project.id, { status: 'active' }),
    await alice.sessions.create(project.id),
    await alice.sessions.create(other.id, { status: 'active' }),
  ];
  const watched = await new Watched((signal) =>
    alice.watch({ tasks: { project: project.id }, signal }),
  ).live();
  const since = await running.stoa.changes.newest();
  const first = await alice.tasks.create(session.id, { command: 'first', priority: 9 });
  await alice.tasks.create(session.id, { command: 'depends', depends_on: [first.id], max_attempts: 2 });
  await (await alice.tasks.claim(project.id))?.complete();
  await (await alice.tasks.claim(project.id))?.fail({ retry: true });
  await (await alice.tasks.claim(project.id))?.fail();
  const last = await alice.tasks.create(session.id, { command: 'last' });
  await overwritten(() => alice.tasks.update(last.id, { priority: 3 }));
  await alice.tasks.cancel(last.id);
  await alice.tasks.retry(last.id);
  await alice.tasks.delete(last.id);
  await alice.tasks.create(elsewhere.id, { command: 'not of this project' });
  await alice.sessions.delete(emptied.id);
  await alice.workspaces.update(workspace.id, { status: 'inactive' });
  const isMeant = ({ kind, facts }: ChangeItem) =>
    facts?.['project'] === project.id && (kind.startsWith('task.') || kind === 'session.deleted');
  await expectTold(watched, since, isMeant, [
    ...[
      'created',
      'updated',
      'claimed',
      'returned',
      'ready',
      'completed',
      'failed',
      'cancelled',
      'retried',
      'imported',
      'deleted',
    ].map((event) => `task.${event}`),
    'session.deleted',
  ]);
  await alice.projects.delete(project.id);
  await watched.done;
  expect(watched.changes.at(-1)).toMatchObject({ kind: 'project.deleted', id: project.id });
});

test('a project that an import moves is watched to the end of its new workspace', async () => {
  const [here, there] = [
    await alice.workspaces.create({ name: 'here' }),
    await alice.workspaces.create({ name: 'there' }),
  ];
  const project = await alice.projects.create(there.id, { name: 'moved' });
  const path = join(directory, 'moved.ndjson');
  await writeFile(path, (await linesOf(running.stoa, { withSecrets: true, user })).join(''));
  await alice.projects.update(project.id, { workspace_id: here.id });
  const watched = await new Watched((signal) =>
    alice.watch({ tasks: { project: project.id }, signal }),
  ).live();
  await running.stoa.transfer.import(operatorCaller(), path, { onConflict: 'replace' });
  await alice.workspaces.delete(there.id);
  await watched.done;
  expect(watched.changes.at(-1)).toMatchObject({ kind: 'workspace.deleted', id: there.id });
});

test('the watch of agents sends every kind of change of an agent', async () => {
  const identity = (
    await writtenPort(running.stoa.messaging).register({
      publicKey: Buffer.alloc(32, 7).toString('base64'),
      name: 'signer',
      email: null,
      proven: true,
    })
  ).identity;
  const watched = await new Watched((signal) => alice.watch({ agents: {}, signal })).live();
  const since = await running.stoa.changes.newest();
  const { agent_id: id } = await alice.agents.create({ name: 'all-kinds' });
  await alice.agents.start(id);
  await overwritten(() => alice.agents.update(id, { labels: { changed: 'yes' } }));
  const written = { registry: running.stoa.registry, writer: running.stoa.home.writer };
  await linkIdentity(written, caller, id, identity.id);
  await unlinkIdentity(written, caller, identity.id);
  await alice.agents.heartbeat(id, { holder: 'first' });
  await running.stoa.registry.releaseLease(caller, id);
  await alice.agents.heartbeat(id, { holder: 'second' });
  await eventually(async () =>
    expect((await feedSince(since)).some(({ kind }) => kind === 'agent.lost')).toBe(true),
  );
  await alice.agents.hibernate(id);
  await alice.agents.openSession(id);
  await alice.agents.update(id, { status: 'error' });
  await alice.agents.delete(id);
  const kinds = [
    'created',
    'updated',
    'transitioned',
    'imported',
    'linked',
    'unlinked',
    'present',
    'released',
    'lost',
    'wake_requested',
    'deleted',
  ];
  await expectTold(
    watched,
    since,
    ({ kind }) => kind.startsWith('agent.'),
    kinds.map((event) => `agent.${event}`),
  );
  await watched.stop();
});

test('the watch of a namespace sends sets, deletions, expiries, imports and clears', async () => {
  const data = alice.data<number>('kinds');
  const watched = await new Watched((signal) =>
    alice.watch<number>({ data: { namespace: 'kinds' }, signal }),
  ).live();
  await data.set('a', 1);
  await data.delete('a');
  await data.set('soon', 1, { ttl: 0.05 });
  await eventually(async () =>
    expect(watched.changes.at(-1)).toMatchObject({ kind: 'deleted', key: 'soon' }),
  );
  await data.set('kept', 1);
  await data.set('kept', 2);
  await overwritten(() => data.set('kept', 3));
  await data.clear();
  const expected = [
    ['set', 'a', 1],
    ['deleted', 'a', null],
    ['set', 'soon', 1],
    ['deleted', 'soon', null],
    ['set', 'kept', 1],
    ['set', 'kept', 2],
    ['set', 'kept', 3],
    ['set', 'kept', 2],
    ['cleared', null, null],
  ];
  await eventually(async () => expect(watched.changes.map(factsOf)).toEqual(expected));
  await watched.stop();
});

test('the watch of a room sends messages and deletions, and a resync after an import', async () => {
  const author = new Stoa({ url: running.url }).agent(await AgentKeys.generate());
  await author.register({ name: 'author' });
  const room = author.room((await author.rooms.create({ name: 'all-kinds', public: true })).id);
  const { id } = await room.post('taken back and restored');
  const watched = await new Watched((signal) => room.watch({ signal })).live();
  await room.post('second');
  await overwritten(() => room.delete(id));
  await eventually(async () => expect(watched.events.some(({ kind }) => kind === 'resync')).toBe(true));
  await eventually(() =>
    expect(watched.snapshot.map(({ body }) => body)).toEqual([
      'taken back and restored',
      'taken back and restored',
      'second',
    ]),
  );
  await room.post('third');
  await eventually(async () => expect(watched.changes.map(wordsOf)).toEqual(['second', 'deleted', 'third']));
  await watched.stop();
});

test('a late change of a listed write is dropped, and a change of a new document with the same key is sent', async () => {
  const data = alice.data<number>('late');
  for (let version = 1; version <= 3; version += 1) await data.setMany({ a: version, b: version });
  const stop = new AbortController();
  const changes: DocumentChange[] = [];
  let told = 0;
  for await (const event of alice.watch<number>({ data: { namespace: 'late' }, signal: stop.signal })) {
    if (event.kind === 'snapshot') {
      expect(event.items.map(({ key, version }) => [key, version])).toEqual([
        ['a', 3],
        ['b', 3],
      ]);
      // Between the pages and the first look into the feed; then after it.
      await tellLate('a', 2);
      await tellLate('a', 3);
    }
    if (event.kind === 'live' && (told += 1) === 1) {
      await tellLate('b', 1);
      await tellLate('b', 3);
      await data.set('b', 4);
      await data.delete('a');
      await data.set('a', 1);
    }
    if (event.kind === 'changes') changes.push(...event.items);
    if (changes.length >= 3) stop.abort();
  }
  expect(changes.map(factsOf)).toEqual([
    ['set', 'b', 4],
    ['deleted', 'a', null],
    ['set', 'a', 1],
  ]);
});
