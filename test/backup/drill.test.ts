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
import { publicRoom } from '../messaging/public-room.js';
import {
  Acknowledged,
  Load,
  contentOf,
  documentName,
  isLong,
  kindOf,
  namespace,
  type Places,
  size,
  users,
  worker,
} from './drill-load.js';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-drill-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

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
      // Before the end of the first full backup there is nothing to replay from. RocksDB differs only below the
      // kernel: the short form restores it where the whole store is compared.
      const compared = marks.slice(2).filter(({ bytes }) => isLong || engine === 'lmdb' || bytes !== null);
      for (const [index, mark] of compared.entries())
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
