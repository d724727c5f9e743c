/**
 * Backups under load of every domain, restored to many points and compared with what was acknowledged by
 * then. `npm run test:drill` takes longer.
 */
import { kernelOf } from '../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allChecks } from '../../src/homes/directory/doctor/doctor.js';
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { verifyBackups } from '../../src/homes/directory/kernel/backup/read.js';
import { backup } from '../../src/homes/directory/kernel/backup/backup.js';
import { examineAll } from '../../src/homes/directory/kernel/inspect/doctor.js';
import type { EngineName } from '../../src/core/settings/store-config.js';
import { kernelFamilies } from '../../src/homes/directory/kernel/families.js';
import type { FeedCommit } from '../../src/feed/port.js';
import { restore } from '../../src/homes/directory/kernel/backup/restore.js';
import type { RestorePoint } from '../../src/operations/model.js';
import type { DirectMessage } from '../../src/messaging/model.js';
import { documentPath } from '../../src/core/text/path-segment.js';
import { publicRoom } from '../messaging/public-room.js';

const isLong = process.env['DRILL'] === 'full';
const size = isLong
  ? { rounds: 8, operationsPerRound: 2_000, workers: 16 }
  : { rounds: 3, operationsPerRound: 120, workers: 6 };
const users = ['ada', 'bob', 'eve'];
const namespace = 'drill';
/** The agent of each user that claims tasks. */
const worker = 'worker';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-drill-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** What every acknowledged version of a thing looked like; undefined where the version is a deletion. */
class Acknowledged {
  readonly #contents = new Map<string, unknown>();
  /** Agents whose presence changes with their calls, without an answer that says so. */
  readonly workers = new Set<string>();
  count = 0;

  add(kind: Kind, id: string, version: number | null, content: unknown): void {
    this.#contents.set(`${kind} ${id} ${version}`, content);
    this.count += 1;
  }

  /** Everything that there was after these commits of the feed. */
  after(commits: readonly Omit<FeedCommit, 'position'>[]): Map<string, unknown> {
    const found = new Map<string, unknown>();
    for (const { changes } of commits) {
      for (const { kind, id: given, user, version } of changes) {
        const thing = kindOf(kind);
        if (thing === undefined || this.workers.has(given)) continue;
        const id = thing === 'document' ? `${user} ${given}` : given;
        if (kind === 'document.deleted' || kind === 'message.deleted') {
          found.delete(`${thing} ${id}`);
          continue;
        }
        const name = `${thing} ${id} ${version}`;
        if (!this.#contents.has(name))
          throw new Error(`The feed has ${kind} of ${name}, which nobody was told of.`);
        found.set(`${thing} ${id}`, this.#contents.get(name));
      }
    }
    return found;
  }
}

const kinds = ['document', 'agent', 'task', 'message', 'direct'] as const;
type Kind = (typeof kinds)[number];

function kindOf(change: string): Kind | undefined {
  return kinds.find((kind) => change.startsWith(`${kind}.`));
}

/** Where messages are: rooms by id, and the identities that have inboxes. */
interface Places {
  rooms: string[];
  inboxes: string[];
}

/** Workers that write to every domain, each waiting for its acknowledgement, until they are told to pause. */
class Load {
  readonly #stoa: Stoa;
  readonly #model: Acknowledged;
  readonly #agents: { user: string; id: string }[] = [];
  readonly #sessions = new Map<string, { project: string; session: string }>();
  readonly places: Places = { rooms: [], inboxes: [] };
  #step = 0;

  constructor(stoa: Stoa, model: Acknowledged) {
    this.#stoa = stoa;
    this.#model = model;
  }

  async prepare(): Promise<void> {
    for (const user of users) {
      const caller = operatorCaller(user);
      const workspace = await this.#stoa.workspaces.createWorkspace(caller, {
        name: 'drill',
        claude_key: 'secret',
      });
      const project = await this.#stoa.workspaces.createProject(caller, workspace.id, { name: 'drill' });
      const session = await this.#stoa.workspaces.createSession(caller, project.id, { status: 'active' });
      this.#sessions.set(user, { project: project.id, session: session.id });
      this.places.inboxes.push(await this.#stoa.messaging.direct.recipientOf(caller));
      const { agent_id } = await this.#stoa.registry.createAgent(caller, { name: worker });
      this.#model.workers.add(agent_id);
    }
    for (const is_private of [false, true]) {
      const room = await this.#stoa.messaging.rooms.create(
        operatorCaller('ada'),
        {
          name: is_private ? 'vault' : 'square',
          is_private,
          key: is_private ? 'a key of sixteen characters' : '',
          owner: null,
        },
        null,
      );
      this.places.rooms.push(room.id);
    }
  }

  async run(operations: number): Promise<void> {
    const end = this.#step + operations;
    await Promise.all(
      Array.from({ length: size.workers }, async () => {
        while (this.#step < end) {
          this.#step += 1;
          await this.#one(this.#step);
        }
      }),
    );
  }

  async #one(step: number): Promise<void> {
    const user = users[step % users.length] as string;
    const verbs = [
      this.#set,
      this.#set,
      this.#remove,
      this.#createAgent,
      this.#label,
      this.#createTask,
      this.#work,
      this.#post,
      this.#unsay,
      this.#send,
      this.#acknowledge,
    ];
    await (verbs[(step * 31) % verbs.length] as (user: string, step: number) => Promise<void>).call(
      this,
      user,
      step,
    );
  }

  async #set(user: string, step: number): Promise<void> {
    const key = `k${step % 40}`;
    const value = { step, text: 'x'.repeat(step % 300) };
    const { version } = await this.#stoa.data.set(operatorCaller(user), namespace, key, value);
    this.#model.add('document', documentName(user, key), version, value);
  }

  /** With a unique key: a new document starts again at version 1, and two contents would share a name. */
  async #remove(user: string, step: number): Promise<void> {
    const caller = operatorCaller(user);
    const { version } = await this.#stoa.data.set(caller, namespace, `gone ${step}`, step);
    this.#model.add('document', documentName(user, `gone ${step}`), version, step);
    await this.#stoa.data.delete(caller, namespace, `gone ${step}`);
  }

  async #createAgent(user: string, step: number): Promise<void> {
    const agent = await this.#stoa.registry.createAgent(operatorCaller(user), { name: `agent ${step}` });
    this.#model.add('agent', agent.agent_id, agent.version, agent);
    this.#agents.push({ user, id: agent.agent_id });
  }

  async #label(_user: string, step: number): Promise<void> {
    const chosen = this.#agents[step % Math.max(1, this.#agents.length)];
    if (chosen === undefined) return;
    const agent = await this.#stoa.registry.updateAgent(operatorCaller(chosen.user), chosen.id, {
      labels: { step: String(step) },
    });
    this.#model.add('agent', agent.agent_id, agent.version, agent);
  }

  async #createTask(user: string, step: number): Promise<void> {
    const task = await this.#stoa.workspaces.createTask(
      operatorCaller(user),
      this.#sessions.get(user)?.session as string,
      { command: `run ${step}` },
    );
    this.#model.add('task', task.id, task.version, task);
  }

  async #work(user: string, step: number): Promise<void> {
    const caller = operatorCaller(user, worker);
    const claim = await this.#stoa.workspaces.claimTask(caller, this.#sessions.get(user)?.project as string);
    if (claim === null) return;
    this.#model.add('task', claim.task.id, claim.task.version, claim.task);
    const done = await this.#stoa.workspaces.completeTask(caller, claim.task.id, {
      fence: claim.lease.fence,
      output: `done ${step}`,
    });
    this.#model.add('task', done.id, done.version, done);
  }

  async #post(user: string, step: number): Promise<void> {
    await this.#say(user, this.places.rooms[step % this.places.rooms.length] as string, `said ${step}`);
  }

  async #unsay(user: string, step: number): Promise<void> {
    const room = this.places.rooms[0] as string;
    const id = await this.#say(user, room, `unsaid ${step}`);
    await this.#stoa.messaging.rooms.remove(operatorCaller(user), { room }, id);
  }

  async #say(user: string, room: string, body: string): Promise<string> {
    const { rooms, port } = this.#stoa.messaging;
    const { id } = await rooms.post(operatorCaller(user), { room }, () => ({ body, pid: '' }), null);
    this.#model.add('message', `${room}/${id}`, null, await port.message(publicRoom(room), id));
    return id;
  }

  async #send(user: string, step: number): Promise<void> {
    const to = this.places.inboxes[(step * 7) % this.places.inboxes.length] as string;
    const { direct, port } = this.#stoa.messaging;
    const { id } = await direct.send(operatorCaller(user), to, { body: `whispered ${step}` }, null);
    const { items } = await port.inbox(to, { beforeMs: null, limit: 100 });
    const message = items.find((one) => one.id === id);
    if (message === undefined) throw new Error(`The direct message ${id} is not in its inbox.`);
    this.#model.add('direct', id, null, contentOf(message));
  }

  async #acknowledge(user: string): Promise<void> {
    const { direct } = this.#stoa.messaging;
    const { items } = await direct.pending(
      await direct.readerOf(operatorCaller(user)),
      0,
      5,
      0,
      AbortSignal.timeout(60_000),
    );
    if (items.length > 0)
      await direct.acknowledge(
        operatorCaller(user),
        items.map(({ id }) => id),
      );
  }
}

/** The feed does not contain acknowledgements; the comparison of all bytes covers them. */
function contentOf({
  acknowledged: _acknowledged,
  ...content
}: DirectMessage): Omit<DirectMessage, 'acknowledged'> {
  return content;
}

/** The path of a document in the feed does not say whose it is. */
function documentName(user: string, key: string): string {
  return `${user} ${documentPath(namespace, key)}`;
}

/** What a store answers for everything in it. */
async function answers(stoa: Stoa, places: Places): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  for (const user of users) {
    const caller = operatorCaller(user);
    for await (const { key, value } of stoa.data.getAll(caller, namespace))
      found.set(`document ${documentName(user, key)}`, value);
    for await (const agent of pages((cursor) => stoa.registry.listAgents(caller, { cursor })))
      if (agent.name !== worker) found.set(`agent ${agent.agent_id}`, agent);
    for await (const workspace of pages((cursor) => stoa.workspaces.listWorkspaces(caller, { cursor }))) {
      for await (const project of pages((cursor) =>
        stoa.workspaces.listProjects(caller, workspace.id, { cursor }),
      )) {
        for await (const session of pages((cursor) =>
          stoa.workspaces.listSessions(caller, project.id, { cursor }),
        )) {
          for await (const task of pages((cursor) =>
            stoa.workspaces.listSessionTasks(caller, session.id, { cursor }),
          ))
            found.set(`task ${task.id}`, task);
        }
      }
    }
  }
  const { port } = stoa.messaging;
  for (const room of places.rooms) {
    for await (const message of back((beforeMs) => port.messages(publicRoom(room), { beforeMs, limit: 100 })))
      found.set(`message ${room}/${message.id}`, message);
  }
  for (const inbox of places.inboxes) {
    for await (const message of back((beforeMs) => port.inbox(inbox, { beforeMs, limit: 100 })))
      found.set(`direct ${message.id}`, contentOf(message));
  }
  return found;
}

/** From the newest message to the oldest. */
async function* back<Item extends { tsMs: number }>(
  read: (beforeMs: number | null) => Promise<{ items: Item[]; hasMore: boolean }>,
): AsyncGenerator<Item> {
  for (let beforeMs: number | null = null; ;) {
    const page: { items: Item[]; hasMore: boolean } = await read(beforeMs);
    yield* page.items;
    const last = page.items.at(-1);
    if (!page.hasMore || last === undefined) return;
    beforeMs = last.tsMs;
  }
}

async function* pages<Item>(
  read: (cursor: string | undefined) => Promise<{ items: Item[]; next_cursor: string | null }>,
): AsyncGenerator<Item> {
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    yield* page.items;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

/**
 * Every byte of every family, timers included; the logs and the notes about the directory itself are compared
 * otherwise.
 */
function bytes(stoa: Stoa): Map<string, string> {
  const found = new Map<string, string>();
  for (const family of [...directoryFamilies, kernelFamilies.timers, kernelFamilies.idempotency]) {
    for (const { key, value } of kernelOf(stoa).root.range(family, {}))
      found.set(`${family} ${key.toString('hex')}`, value.toString('hex'));
  }
  return found;
}

/** A restored directory is a new store, so its positions have another name; their numbers are equal. */
function wholeFeed(stoa: Stoa): Omit<FeedCommit, 'position'>[] {
  const commits: Omit<FeedCommit, 'position'>[] = [];
  for (let since: string | undefined; ;) {
    const page = kernelOf(stoa).feed.read({ since });
    commits.push(...page.commits.map(({ seq, atMs, changes }) => ({ seq, atMs, changes })));
    if (!page.more) return commits;
    since = page.position;
  }
}

/** A moment to restore to. */
interface Mark {
  to: RestorePoint;
  /** Acknowledged before the moment: all of it must be there. */
  acknowledged: number;
  /** The whole store, where nothing was going on at that moment. */
  bytes: Map<string, string> | null;
}

describe.each(['lmdb', 'rocksdb'] as const)('the drill on %s', (engine: EngineName) => {
  it(
    'restores every domain to any point, as it was acknowledged by then',
    { timeout: isLong ? 1_800_000 : 120_000 },
    async () => {
      const backups = join(directory, 'backups');
      const model = new Acknowledged();
      const marks: Mark[] = [];
      const stoa = await openStoa({
        data: join(directory, 'data'),
        engine,
        sweepIntervalMs: 3_600_000,
        limits: { agentsPerUserMax: 100_000 },
      });
      const load = new Load(stoa, model);
      await load.prepare();
      for (let round = 0; round <= size.rounds; round += 1) {
        // The backup runs in the middle of the load: what came before it and what comes during it are both
        // there.
        const running = load.run(size.operationsPerRound);
        for (let index = 0; index < 20; index += 1) await turn();
        marks.push({ to: { position: await stoa.changes.newest() }, acknowledged: model.count, bytes: null });
        await backup(kernelOf(stoa), { directory: backups, kind: round === 0 ? 'full' : 'incremental' });
        marks.push({ to: { timeMs: kernelOf(stoa).nowMs() }, acknowledged: 0, bytes: null });
        await running;
        marks.push({
          to: { position: await stoa.changes.newest() },
          acknowledged: model.count,
          bytes: bytes(stoa),
        });
      }
      await backup(kernelOf(stoa), { directory: backups, kind: 'incremental' });
      const feed = wholeFeed(stoa);
      await stoa.close();

      expect((await verifyBackups(backups)).every(({ ok }) => ok)).toBe(true);
      // Before the end of the first full backup there is nothing to replay from.
      for (const [index, mark] of marks.slice(2).entries())
        await compare(engine, backups, `restored-${index}`, mark, { feed, model, places: load.places });
    },
  );
});

async function compare(
  engine: EngineName,
  backups: string,
  name: string,
  mark: Mark,
  {
    feed,
    model,
    places,
  }: { feed: readonly Omit<FeedCommit, 'position'>[]; model: Acknowledged; places: Places },
): Promise<void> {
  const target = join(directory, name);
  await restore({ directory: backups, target, to: mark.to, families: directoryFamilies });
  const stoa = await openStoa({
    data: target,
    engine,
    sweepIntervalMs: 3_600_000,
    limits: { agentsPerUserMax: 100_000 },
  });
  try {
    const { to } = mark;
    const expected = feed.filter(({ seq, atMs }) =>
      'position' in to ? seq <= Number(to.position.split('-')[1]) : atMs <= to.timeMs,
    );
    expect(wholeFeed(stoa)).toEqual(expected);
    expect(
      expected.flatMap(({ changes }) => changes).filter(({ kind }) => kindOf(kind) !== undefined).length,
    ).toBeGreaterThanOrEqual(mark.acknowledged);
    expect(await answers(stoa, places)).toEqual(model.after(expected));
    if (mark.bytes !== null) expect(bytes(stoa)).toEqual(mark.bytes);
    for await (const finding of examineAll(kernelOf(stoa).stores, allChecks(kernelOf(stoa)), {
      repair: false,
    }))
      throw new Error(`The doctor found: ${finding.problem}`);
    await stoa.data.set(operatorCaller('ada'), namespace, 'after', name);
    expect(kernelOf(stoa).root.sequence).toBe((expected.at(-1)?.seq ?? 0) + 1);
  } finally {
    await stoa.close();
    await rm(target, { recursive: true, force: true });
  }
}
