/**
 * Compares the search of the data directory with a plain list of messages, while words are indexed, arrive
 * late and expire.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { DirectoryRegistry } from '../../../../src/homes/directory/registry/registry.js';
import { messagingChecks } from '../../../../src/homes/directory/doctor/messaging/messaging.js';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { openDirectoryMessaging } from '../../../../src/homes/directory/messaging/messaging.js';
import { messageOf } from '../../../../src/core/errors.js';
import type { Entry, RangeOptions, WriteOperation } from '../../../../src/homes/directory/kernel/engine.js';
import { DirectoryWriter } from '../../../../src/homes/directory/writer.js';
import { examine } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import type { Message } from '../../../../src/messaging/model.js';
import { FaultyEngine } from '../kernel/faulty-engine.js';
import { type WrittenPort, writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';

const hourMs = 3_600_000;
const unlimited: Partial<Limits> = { messageBytesPerMinuteMax: 1e15, messageClockAheadSecondsMax: 1e9 };
/** For what is done beside the requests. */
const patience = { timeout: 30_000, interval: 5 };
const open: Library[] = [];

afterEach(async () => {
  for (const library of open.splice(0)) await library.close();
});

/** Makes only the indexing fail with a full disk; posts continue. */
class FilingFaults extends FaultyEngine {
  fail = false;
  /** Lists of words that were read. */
  seeks = 0;

  override range(family: string, options: RangeOptions): Iterable<Entry> {
    if (family === 'messaging/word_lists') this.seeks += 1;
    return super.range(family, options);
  }

  override commit(operations: readonly WriteOperation[]): Promise<void> {
    if (this.fail && operations.some(({ family }) => family === 'messaging/word_lists'))
      this.failNext('disk_full');
    return super.commit(operations);
  }
}

type Posted = Pick<Message, 'id' | 'tsMs' | 'roomId' | 'body'>;

/** A store whose clock the test sets, and every message that was posted to it. */
class Library {
  nowMs = Date.UTC(2026, 0, 1);
  readonly posted: Posted[] = [];
  agent = '';
  rooms: string[] = [];
  directory: string | undefined;
  kernel!: Kernel;
  port!: WrittenPort;
  engine!: FilingFaults;
  /** Errors reported to the operator. */
  readonly errors: string[] = [];

  static async open(limits: Partial<Limits> = {}): Promise<Library> {
    const library = new Library();
    library.directory = await mkdtemp(join(tmpdir(), 'stoa-search-'));
    await library.start(limits);
    const { identity } = await library.port.register({
      publicKey: `${'A'.repeat(43)}=`,
      name: 'author',
      email: null,
      proven: true,
    });
    library.agent = identity.id;
    for (const name of ['one', 'two', 'three'])
      library.rooms.push(
        (
          await library.port.createRoom({
            name,
            isPrivate: false,
            keyHash: null,
            createdBy: library.agent,
            owner: null,
            retentionSeconds: null,
          })
        ).id,
      );
    open.push(library);
    return library;
  }

  async start(limits: Partial<Limits> = {}): Promise<void> {
    this.kernel = await openKernel({
      dataDir: this.directory as string,
      engine: 'lmdb',
      families: directoryFamilies,
      limits: limitsWith({ ...unlimited, ...limits }),
      clock: () => this.nowMs,
      wrapEngine: (engine) => (this.engine = new FilingFaults(engine)),
    });
    this.port = writtenPort({
      writer: new DirectoryWriter(this.kernel),
      port: await openDirectoryMessaging(this.kernel, new DirectoryRegistry(this.kernel), (error) =>
        this.errors.push(messageOf(error)),
      ),
    });
  }

  async stop(): Promise<void> {
    await this.port.close();
    await this.kernel.close();
  }

  async close(): Promise<void> {
    await this.stop();
    await rm(this.directory as string, { recursive: true, force: true });
  }

  /** Many posts share a commit, as they would with many authors. */
  async post(
    count: number,
    bodyAt: (index: number) => string,
    before: (index: number) => void = () => undefined,
  ): Promise<void> {
    const first = this.posted.length;
    for (let index = first; index < first + count;) {
      const together: Promise<Posted>[] = [];
      for (let end = Math.min(index + 200, first + count); index < end; index += 1) {
        before(index);
        const message = { roomId: this.rooms[index % 3] as string, body: bodyAt(index) };
        const unsigned = { parentId: null, proof: null, serverSigned: false };
        together.push(
          this.port
            .post({ ...message, ...unsigned, from: this.agent })
            .then(({ id, tsMs }) => ({ ...message, id, tsMs })),
        );
      }
      this.posted.push(...(await Promise.all(together)));
    }
  }

  async find(words: readonly string[], limit = 10_000, room?: number): Promise<string[]> {
    const roomId = room === undefined ? null : (this.rooms[room] as string);
    const query = {
      words,
      roomId,
      retentionSeconds: this.kernel.limits.messageRetentionSeconds,
      afterMs: 0,
      beforeMs: null,
      limit,
    };
    return (await this.port.search(query)).messages.map(({ id }) => id);
  }

  /** What a search must find, from the messages themselves. */
  expected(words: readonly string[], room?: number): string[] {
    const matching = this.posted.filter(({ body, tsMs, roomId }) => {
      const own = body.split(' ');
      const isAlive = tsMs + this.kernel.limits.messageRetentionSeconds * 1000 > this.nowMs;
      return (
        isAlive &&
        words.every((word) => own.includes(word)) &&
        (room === undefined || roomId === this.rooms[room])
      );
    });
    return matching
      .map(({ id }) => id)
      .toSorted()
      .toReversed();
  }

  rowsIn(family: string): number {
    return [...this.kernel.root.range(`messaging/${family}`, {})].length;
  }
}

function bodyOf(index: number): string {
  return `common ${index % 2 === 0 ? 'even' : 'odd'} third${index % 3} rare${index % 101} only${index}`;
}

const questions: readonly (readonly string[])[] = [
  ['common'],
  ['even', 'third1'],
  ['odd', 'even'],
  ['rare7'],
  ['rare7', 'odd', 'common'],
  ['only3'],
  ['never'],
];

async function expectAllFound(library: Library): Promise<void> {
  for (const words of questions) {
    expect(await library.find(words), words.join(' ')).toEqual(library.expected(words));
    expect(await library.find(words, 3), `three of ${words.join(' ')}`).toEqual(
      library.expected(words).slice(0, 3),
    );
    expect(await library.find(words, 5, 1), `${words.join(' ')} in one room`).toEqual(
      library.expected(words, 1).slice(0, 5),
    );
  }
}

/** The doctor uses the same rules as the search. */
async function expectSound({ kernel }: Library): Promise<void> {
  const found: unknown[] = [];
  for await (const finding of examine(kernel.root, messagingChecks(kernel)))
    if (found.length < 5) found.push(finding);
  expect(found).toEqual([]);
}

it('finds every message, indexed or not yet indexed, also after a restart', async () => {
  const library = await Library.open();
  for (let round = 0; round < 4; round += 1) {
    await library.post(1_400, bodyOf, (index) => (library.nowMs += index % 7 === 0 ? 1 : 0));
    await expectAllFound(library);
  }
  // Both kinds exist, so both are tested.
  expect(library.rowsIn('word_lists')).toBeGreaterThan(0);
  expect(library.rowsIn('waiting_words')).toBeGreaterThan(0);
  await library.stop();
  await library.start();
  await expectAllFound(library);
  await expectSound(library);
});

it('finds messages of a room whose time lags far behind the others', async () => {
  const library = await Library.open();
  // One room posts an hour ahead of the others.
  await library.post(
    5_200,
    bodyOf,
    (index) => (library.nowMs += index % 3 === 0 ? hourMs : index % 3 === 1 ? -hourMs + 5 : 3),
  );
  expect(library.rowsIn('word_lists')).toBeGreaterThan(0);
  await expectAllFound(library);
  await expectSound(library);
});

it('never returns deleted messages, indexed or not', async () => {
  const library = await Library.open();
  await library.post(4_000, bodyOf);
  await Promise.all(
    library.posted
      .filter((_, index) => index % 2 === 0)
      .map(({ roomId, id }) => library.port.deleteMessage(roomId, id)),
  );
  const kept = library.posted.filter((_, index) => index % 2 === 1);
  library.posted.splice(0, library.posted.length, ...kept);
  await expectAllFound(library);
  await expectSound(library);
});

it('hides expired messages at once, and deletes their lists soon after', async () => {
  const library = await Library.open({ messageRetentionSeconds: 3_600 });
  await library.post(3_200, bodyOf);
  library.nowMs += hourMs / 2;
  await library.post(3_200, bodyOf);
  library.nowMs += hourMs / 2 + 20_000;
  await expectAllFound(library);
  await expectSound(library);
  await library.kernel.sweep();
  await expectAllFound(library);
  await expectSound(library);
  expect(await library.find(['common'])).toHaveLength(3_200);
  library.nowMs += hourMs;
  // It takes away a part of a room at a time.
  while ((await library.kernel.sweep()) > 0) library.nowMs += 1;
  expect(
    ['messages', 'waiting_words', 'word_lists', 'word_batches'].map((family) => library.rowsIn(family)),
  ).toEqual([0, 0, 0, 0]);
  expect(library.rowsIn('word_segments')).toBe(1);
});

it('stops at its limit and continues from there without losing or repeating a message', async () => {
  const library = await Library.open({ searchStepsMax: 500 });
  await library.post(6_000, (index) => (index % 1_999 === 0 ? 'odd even' : bodyOf(index)));
  const found: string[] = [];
  let rounds = 0;
  let beforeMs: number | null = null;
  do {
    const page = await library.port.search({
      words: ['odd', 'even'],
      roomId: null,
      retentionSeconds: 86_400,
      afterMs: 0,
      beforeMs,
      limit: 100,
    });
    found.push(...page.messages.map(({ id }) => id));
    beforeMs = page.restBeforeMs;
    rounds += 1;
  } while (beforeMs !== null);
  expect(rounds).toBeGreaterThan(1);
  expect(found).toEqual(library.expected(['odd', 'even']));
});

it('takes bounded steps for a rare word in very many segments, and lets other requests run', async () => {
  const library = await Library.open({ searchStepsMax: 6_000 });
  await library.post(3_100, (index) => (index === 5 ? 'needle here' : bodyOf(index)));
  await vi.waitUntil(() => library.rowsIn('word_lists') > 0, patience);
  const needle = library.expected(['needle']);
  // Segments without the word, like those of busy days.
  const segments = 20_000;
  await library.kernel.root.transact((tx) => {
    for (let index = 1; index <= segments; index += 1) {
      const key = Buffer.alloc(6);
      key.writeUIntBE(library.nowMs + 60_000 + index, 0, 6);
      tx.put('messaging/word_segments', key, Buffer.alloc(0));
    }
  });
  library.nowMs += 120_000;
  const found: string[] = [];
  const rounds: number[] = [];
  let beforeMs: number | null = null;
  let turnsOfOthers = 0;
  const others = () => {
    turnsOfOthers += 1;
    turn = setImmediate(others);
  };
  let turn = setImmediate(others);
  do {
    library.engine.seeks = 0;
    const page = await library.port.search({
      words: ['needle'],
      roomId: null,
      retentionSeconds: 86_400,
      afterMs: 0,
      beforeMs,
      limit: 10,
    });
    found.push(...page.messages.map(({ id }) => id));
    beforeMs = page.restBeforeMs;
    rounds.push(library.engine.seeks);
  } while (beforeMs !== null);
  clearImmediate(turn);
  expect(found).toEqual(needle);
  expect(Math.max(...rounds)).toBeLessThanOrEqual(6_000);
  expect(rounds.length).toBe(Math.ceil((segments + 1) / 6_000));
  // Two thousand steps at a time.
  expect(turnsOfOthers).toBeGreaterThanOrEqual(segments / 2_000);
});

it('reports failed indexing, still finds the messages, and indexes them when the disk works again', async () => {
  const library = await Library.open();
  library.engine.fail = true;
  await library.post(3_000, bodyOf);
  // Its group fails together with the indexing, and the author gets the error; earlier rows stay.
  const more = await Promise.allSettled(
    Array.from({ length: 400 }, () =>
      library.port.post({
        roomId: library.rooms[0] as string,
        from: library.agent,
        body: 'more of it',
        parentId: null,
        proof: null,
        serverSigned: false,
      }),
    ),
  );
  await vi.waitUntil(() => library.errors.length > 0, patience);
  expect(library.errors).toContain('The disk is full, as the test wants it.');
  expect(library.rowsIn('word_lists')).toBe(0);
  expect(more.some(({ status }) => status === 'fulfilled')).toBe(true);
  await expectAllFound(library);
  library.engine.fail = false;
  await vi.waitUntil(() => library.rowsIn('word_lists') > 0, patience);
  await expectAllFound(library);
});
