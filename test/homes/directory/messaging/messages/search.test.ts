/**
 * Compares the search of the data directory with a plain list of messages, while words are filed, arrive late and
 * expire.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { directoryFamilies } from '../../../../../src/homes/directory/families.js';
import { type DirectoryFind } from '../../../../../src/homes/directory/find/find.js';
import { findFamilies } from '../../../../../src/homes/directory/find/rows.js';
import { messageOf } from '../../../../../src/core/errors.js';
import type {
  CommitOptions,
  Entry,
  RangeOptions,
  WriteOperation,
} from '../../../../../src/homes/directory/kernel/engine.js';
import { DirectoryWriter } from '../../../../../src/homes/directory/writer.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { type Limits, limitsWith } from '../../../../../src/core/settings/limits.js';
import type { Message } from '../../../../../src/messaging/model.js';
import { FaultyEngine } from '../../kernel/faulty-engine.js';
import { type WrittenPort, writtenPort } from '../../../../../src/messaging/conformance/kit/written-port.js';
import { openMessaging } from '../open-messaging.js';
import { until } from '../../../../until.js';

const hourMs = 3_600_000;
const unlimited: Partial<Limits> = { messageBytesPerMinuteMax: 1e15, messageClockAheadSecondsMax: 1e9 };
const open: Library[] = [];

afterEach(async () => {
  for (const library of open.splice(0)) await library.close();
});

/** Makes only the filing fail with a full disk; posts continue. */
class FilingFaults extends FaultyEngine {
  fail = false;
  /** Word lists that were read. */
  seeks = 0;

  override range(family: string, options: RangeOptions): Iterable<Entry> {
    if (family === findFamilies.blocks) this.seeks += 1;
    return super.range(family, options);
  }

  override commit(operations: readonly WriteOperation[], options?: CommitOptions): Promise<void> {
    if (this.fail && operations.some(({ family }) => family === findFamilies.blocks))
      this.failNext('disk_full');
    return super.commit(operations, options);
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
  find!: DirectoryFind;
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
    const { messaging, find } = await openMessaging(this.kernel, (error) =>
      this.errors.push(messageOf(error)),
    );
    this.port = writtenPort({ writer: new DirectoryWriter(this.kernel), port: messaging });
    this.find = find;
    find.work.start();
  }

  async stop(): Promise<void> {
    await this.find.work.close();
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

  async search(words: readonly string[], limit = 10_000, room?: number): Promise<string[]> {
    const roomId = room === undefined ? null : (this.rooms[room] as string);
    const query = {
      words,
      owner: null,
      roomId,
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
    return [...this.kernel.root.range(family, {})].length;
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
    expect(await library.search(words), words.join(' ')).toEqual(library.expected(words));
    expect(await library.search(words, 3), `three of ${words.join(' ')}`).toEqual(
      library.expected(words).slice(0, 3),
    );
    expect(await library.search(words, 5, 1), `${words.join(' ')} in one room`).toEqual(
      library.expected(words, 1).slice(0, 5),
    );
  }
}

it('finds every message, filed or waiting, also after a restart', async () => {
  const library = await Library.open();
  for (let round = 0; round < 4; round += 1) {
    await library.post(400, bodyOf, (index) => (library.nowMs += index % 7 === 0 ? 1 : 0));
    await expectAllFound(library);
  }
  await library.post(100, bodyOf);
  // Both kinds exist, so both are tested.
  expect(library.rowsIn(findFamilies.segments)).toBeGreaterThan(0);
  expect(library.rowsIn(findFamilies.marks)).toBeGreaterThan(0);
  await library.stop();
  await library.start();
  await expectAllFound(library);
  await library.find.work.settle();
  expect(library.rowsIn(findFamilies.marks)).toBe(0);
  await expectAllFound(library);
});

it('finds messages of a room whose time lags far behind the others', async () => {
  const library = await Library.open();
  // One room posts an hour ahead of the others.
  await library.post(
    1_500,
    bodyOf,
    (index) => (library.nowMs += index % 3 === 0 ? hourMs : index % 3 === 1 ? -hourMs + 5 : 3),
  );
  await expectAllFound(library);
  await library.find.work.settle();
  await expectAllFound(library);
});

it('never returns deleted messages, filed or waiting', async () => {
  const library = await Library.open();
  await library.post(800, bodyOf);
  await library.find.work.settle();
  await library.post(200, bodyOf);
  await Promise.all(
    library.posted
      .filter((_, index) => index % 2 === 0)
      .map(({ roomId, id }) => library.port.deleteMessage(roomId, id)),
  );
  const kept = library.posted.filter((_, index) => index % 2 === 1);
  library.posted.splice(0, library.posted.length, ...kept);
  await expectAllFound(library);
  await library.find.work.settle();
  await expectAllFound(library);
});

it('hides expired messages at once, and deletes their words soon after', async () => {
  const library = await Library.open({ messageRetentionSeconds: 3_600 });
  await library.post(600, bodyOf);
  library.nowMs += hourMs / 2;
  await library.post(600, bodyOf);
  library.nowMs += hourMs / 2 + 20_000;
  await expectAllFound(library);
  await library.kernel.sweep();
  await expectAllFound(library);
  expect(await library.search(['common'])).toHaveLength(600);
  library.nowMs += hourMs;
  // It takes away a part of a room at a time.
  while ((await library.kernel.sweep()) > 0) library.nowMs += 1;
  await library.find.work.settle();
  for (const family of ['messaging/messages', ...Object.values(findFamilies)])
    expect(library.rowsIn(family), family).toBe(0);
});

it('stops at its limit and continues from there without losing or repeating a message', async () => {
  const library = await Library.open({ searchStepsMax: 4 });
  // All in a few milliseconds, so that pages end among messages of the same time.
  await library.post(2_000, (index) => (index % 499 === 0 ? 'odd even' : bodyOf(index)));
  for (const settled of [false, true]) {
    if (settled) await library.find.work.settle();
    const found: string[] = [];
    let rounds = 0;
    let beforeMs: number | null = null;
    do {
      const page = await library.port.search({
        words: ['odd', 'even'],
        owner: null,
        roomId: null,
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
  }
});

it('reads few word lists for a common word, however many messages there are', async () => {
  const library = await Library.open();
  await library.post(2_500, bodyOf, () => (library.nowMs += 1));
  await library.find.work.settle();
  library.engine.seeks = 0;
  expect(await library.search(['common'], 20)).toEqual(library.expected(['common']).slice(0, 20));
  const segments = library.rowsIn(findFamilies.segments);
  expect(segments).toBeGreaterThan(1);
  expect(library.engine.seeks).toBeLessThanOrEqual(2);
});

it('finds words by the rules of AICQ, which knows no folding, no stems and no parts of words', async () => {
  const library = await Library.open();
  const texts = [
    'naïve café',
    'naive cafe',
    'getUserById called deployed',
    'user get deploy',
    '_private_ a__b____c under_score_',
    'private under_score',
    'ภาษาไทย สวัสดี',
    'ＦＵＬＬＷＩＤＴＨ fullwidth',
    'e\u0301tude étude',
    '機械学習のmodelモデル',
    `${'𐐨'.repeat(60)} long`,
    'v1.2.3-rc4 src/app.ts E404 user@host.name',
  ];
  await library.post(texts.length, (index) => texts[index] as string);
  const words = new Set(texts.flatMap((text) => queryable(text)));
  for (const word of [...words, 'user', 'deploy', 'cafe', 'private', 'app', 'score']) {
    const expected = library.posted
      .filter(({ body }) => queryable(body).includes(word))
      .map(({ id }) => id)
      .toSorted()
      .toReversed();
    expect(await library.search([word]), word).toEqual(expected);
  }
  await library.find.work.settle();
  for (const word of words) expect((await library.search([word])).length, word).toBeGreaterThan(0);
});

it('reports failed filing, still finds the messages, and files them when the disk works again', async () => {
  const library = await Library.open();
  library.engine.fail = true;
  // A group that fails together with the filing is refused, and its author gets the error.
  const posts = await Promise.allSettled(
    Array.from({ length: 1_000 }, (_, index) => library.post(1, () => bodyOf(index))),
  );
  await until(() => library.errors.length > 0);
  expect(library.errors).toContain('The disk is full, as the test wants it.');
  expect(posts.some(({ status }) => status === 'fulfilled')).toBe(true);
  expect(library.rowsIn(findFamilies.blocks)).toBe(0);
  await expectAllFound(library);
  library.engine.fail = false;
  await until(() => library.rowsIn(findFamilies.blocks) > 0);
  await expectAllFound(library);
});

/** Every word by which AICQ finds this text, written apart from the code under test. */
function queryable(text: string): string[] {
  const cjk = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}]/u;
  const words: string[] = [];
  for (const [run] of text
    .toLowerCase()
    .normalize('NFC')
    .matchAll(/[\p{L}\p{M}\p{Nd}_]+/gu)) {
    const characters = [...run];
    let plain = '';
    for (const [index, character] of characters.entries()) {
      if (!cjk.test(character)) plain += character;
      else if (cjk.test(characters[index + 1] ?? ''))
        words.push(character + (characters[index + 1] as string));
      if (cjk.test(character) || index === characters.length - 1) {
        if ([...plain].length >= 3) words.push(plain);
        plain = '';
      }
    }
  }
  return words;
}
