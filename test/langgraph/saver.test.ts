import { once } from 'node:events';
import { type Checkpoint, INTERRUPT, emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint';
import { deltaChannelHistoryTests, validate } from '@langchain/langgraph-checkpoint-validation';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { operatorCaller } from '../../src/index.js';
import { StoaSaver, inProcess } from '../../src/langgraph/index.js';
import { Running } from '../server/running.js';
import { until } from '../until.js';

let running: Running;
let created = 0;

// The suite expects a runner that defines these everywhere.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

for (const initializer of [
  { checkpointerName: 'stoa/langgraph', createCheckpointer: () => newSaver() },
  { checkpointerName: 'stoa/langgraph in process', createCheckpointer: () => newSaverInProcess() },
]) {
  validate(initializer);
  deltaChannelHistoryTests(initializer);
}

function newSaver(send?: typeof fetch): StoaSaver {
  created += 1;
  return new StoaSaver({
    client: new Stoa({ url: running.url, token: running.alice, fetch: send }),
    namespace: `checkpoints-${created}`,
  });
}

function newSaverInProcess(user = 'alice'): StoaSaver {
  created += 1;
  return new StoaSaver({
    client: inProcess(running.stoa, operatorCaller(user)),
    namespace: `checkpoints-${created}`,
  });
}

const metadata = { source: 'loop' as const, step: 0, parents: {} };

function checkpointWith(values: Record<string, unknown>, versions: Record<string, number>): Checkpoint {
  return { ...emptyCheckpoint(), id: uuid6(created), channel_values: values, channel_versions: versions };
}

it('keeps values that are longer than a document, binary ones too', async () => {
  const saver = newSaver();
  const text = '"\u0001😀'.repeat(300_000);
  const bytes = Uint8Array.from({ length: 400_000 }, (_, index) => index % 256);
  const config = await saver.put(
    { configurable: { thread_id: 't' } },
    checkpointWith({ text, bytes }, { text: 1, bytes: 1 }),
    metadata,
    { text: 1, bytes: 1 },
  );
  await saver.putWrites(
    config,
    [
      ['text', text],
      ['small', 1],
    ],
    'task',
  );
  const tuple = await saver.getTuple(config);
  expect(tuple?.checkpoint.channel_values['text'] === text).toBe(true);
  expect(tuple?.checkpoint.channel_values['bytes']).toEqual(bytes);
  expect(tuple?.pendingWrites?.map(([, channel, value]) => [channel, value === text || value])).toEqual([
    ['text', true],
    ['small', 1],
  ]);
});

it('stores a checkpoint, its new values and the writes of a task in one document each', async () => {
  const saver = newSaver();
  let config: Parameters<StoaSaver['put']>[0] = { configurable: { thread_id: 't' } };
  for (const step of [1, 2]) {
    const checkpoint = { ...checkpointWith({ x: step, y: step }, { x: step, y: step }), id: uuid6(step) };
    config = await saver.put(config, checkpoint, metadata, { x: step, y: step });
    await saver.putWrites(
      config,
      [
        ['x', step],
        ['y', step],
      ],
      'task',
    );
  }
  expect(await documents()).toBe(2 * 3);
});

it('keeps more writes and values than one document has room for', async () => {
  const saver = newSaver();
  const written = Array.from({ length: 20_000 }, (_, index): [string, number] => ['x', index % 10]);
  const values = Object.fromEntries(Array.from({ length: 1_200 }, (_, index) => [`channel ${index}`, index]));
  const versions = Object.fromEntries(Object.keys(values).map((name) => [name, 1]));
  const config = await saver.put(
    { configurable: { thread_id: 't' } },
    { ...checkpointWith(values, versions), id: uuid6(1) },
    metadata,
    versions,
  );
  await saver.putWrites(config, written, 'task');
  await saver.putWrites(config, written.toReversed(), 'task');
  const tuple = await saver.getTuple(config);
  expect(tuple?.checkpoint.channel_values).toEqual(values);
  expect(tuple?.pendingWrites?.map(([, , value]) => value)).toEqual(written.map(([, value]) => value));
  expect(await documents()).toBeLessThan(1_000);
});

describe('values that did not change', () => {
  const config = { configurable: { thread_id: 't' } };
  const first = { ...checkpointWith({ x: 1, y: 'same' }, { x: 1, y: 1 }), id: uuid6(1) };
  const next = { ...checkpointWith({ x: 2, y: 'same' }, { x: 2, y: 1 }), id: uuid6(2) };

  it('are found if another saver wrote them', async () => {
    await newSaver().put(config, first, metadata, { x: 1, y: 1 });
    const client = new Stoa({ url: running.url, token: running.alice });
    const other = new StoaSaver({ client, namespace: `checkpoints-${created}` });
    await other.put(config, next, metadata, { x: 2 });
    const last = { ...next, id: uuid6(3) };
    await other.put(config, last, metadata, {});
    expect((await other.get(config))?.channel_values).toEqual({ x: 2, y: 'same' });
  });

  it('are found if their checkpoint is still being stored', async () => {
    const saver = newSaver();
    await Promise.all([
      saver.put(config, first, metadata, { x: 1, y: 1 }),
      saver.put(config, next, metadata, { x: 2 }),
    ]);
    expect((await saver.get(config))?.channel_values).toEqual({ x: 2, y: 'same' });
  });

  it('stay when their checkpoint is stored again with another new value', async () => {
    const saver = newSaver();
    await saver.put(config, first, metadata, { x: 1, y: 1 });
    await saver.put(config, { ...next, id: first.id }, metadata, { x: 2 });
    expect((await saver.get(config))?.channel_values).toEqual({ x: 2, y: 'same' });
  });
});

it('gives two branches of a thread their own values', async () => {
  const saver = newSaver();
  const start = saver.getNextVersion(undefined);
  const root = await saver.put(
    { configurable: { thread_id: 't' } },
    checkpointWith({ x: 'root' }, { x: start }),
    metadata,
    { x: start },
  );
  const branches = [];
  for (const x of ['left', 'right']) {
    const version = saver.getNextVersion(start);
    expect(version).toBeGreaterThan(start);
    branches.push(await saver.put(root, checkpointWith({ x }, { x: version }), metadata, { x: version }));
  }
  const found = await Promise.all(
    [root, ...branches].map(async (config) => (await saver.get(config))?.channel_values['x']),
  );
  expect(found).toEqual(['root', 'left', 'right']);
});

it('keeps the first writes of a task, and the latest interrupt', async () => {
  const saver = newSaver();
  const config = await saver.put({ configurable: { thread_id: 't' } }, checkpointWith({}, {}), metadata, {});
  for (const attempt of ['first', 'second'])
    await saver.putWrites(
      config,
      [
        ['x', attempt],
        [INTERRUPT, attempt],
      ],
      'task',
    );
  expect((await saver.getTuple(config))?.pendingWrites).toEqual([
    ['task', INTERRUPT, 'second'],
    ['task', 'x', 'first'],
  ]);
});

function taskConfig(thread_id: string) {
  return { configurable: { thread_id, checkpoint_ns: '', checkpoint_id: 'c' } };
}

async function pendingOf(saver: StoaSaver, thread_id: string): Promise<unknown> {
  const checkpoint = { ...checkpointWith({}, {}), id: 'c' };
  await saver.put({ configurable: { thread_id } }, checkpoint, metadata, {});
  return (await saver.getTuple(taskConfig(thread_id)))?.pendingWrites;
}

describe('the writes of a task', () => {
  it('are sent with the next checkpoint', async () => {
    let requests = 0;
    const saver = newSaver((input, init) => {
      requests += 1;
      return fetch(input, init);
    });
    const writes = ['first', 'second'].map((task) => saver.putWrites(taskConfig('t'), [['x', task]], task));
    const next = { ...checkpointWith({ x: 1 }, { x: 1 }), id: 'c' };
    await saver.putWrites(taskConfig('t'), [], 'without any');
    const put = saver.put({ configurable: { thread_id: 't' } }, next, metadata, { x: 1 });
    await Promise.all([...writes, put]);
    expect(requests).toBe(1);
    expect((await saver.getTuple(taskConfig('t')))?.pendingWrites).toEqual([
      ['first', 'x', 'first'],
      ['second', 'x', 'second'],
    ]);
  });

  it('are stored also if others that share their request are refused', async () => {
    const saver = newSaver();
    const tooLong = 't'.repeat(3_000);
    const [one, two, other] = await Promise.allSettled([
      saver.putWrites(taskConfig('t'), [['x', 1]], 'task'),
      saver.putWrites(taskConfig(tooLong), [['x', 2]], 'task'),
      saver.putWrites(taskConfig('u'), [['x', 3]], 'task'),
    ]);
    expect([one.status, two.status, other.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect([await pendingOf(saver, 't'), await pendingOf(saver, 'u')]).toEqual([
      [['task', 'x', 1]],
      [['task', 'x', 3]],
    ]);
  });

  it('are stored also if the answer to the request that they share is lost', async () => {
    const lost: unknown[] = [];
    const saver = newSaver(async (input, init) => {
      const answer = await fetch(input, init);
      if (lost.length > 0) return answer;
      lost.push(await answer.json());
      throw new TypeError('fetch failed');
    });
    await Promise.all([
      saver.putWrites(taskConfig('t'), [['x', 1]], 'task'),
      saver.putWrites(taskConfig('u'), [[INTERRUPT, 2]], 'task'),
    ]);
    expect(lost).toMatchObject([{ ok: true }]);
    expect([await pendingOf(saver, 't'), await pendingOf(saver, 'u')]).toEqual([
      [['task', 'x', 1]],
      [['task', INTERRUPT, 2]],
    ]);
  });

  it('are sent while a request is under way that is not answered, however many they are', async () => {
    const released = new AbortController();
    const answered = once(released.signal, 'abort');
    let requests = 0;
    const saver = newSaver(async (input, init) => {
      requests += 1;
      if (requests === 1) await answered;
      return fetch(input, init);
    });
    const put = saver.put({ configurable: { thread_id: 't' } }, checkpointWith({}, {}), metadata, {});
    await until(async () => requests === 1);
    const many = Array.from({ length: 60 }, (_, place): [string, number] => [`channel ${place}`, place]);
    await Promise.all([
      saver.putWrites(taskConfig('u'), [['x', 1]], 'small'),
      saver.putWrites(taskConfig('u'), many, 'large'),
    ]);
    released.abort();
    await put;
    expect(await pendingOf(saver, 'u')).toHaveLength(61);
  });

  it('are kept when the task runs again in the same moment, and others beside them are stored', async () => {
    const saver = newSaver();
    await Promise.all([
      saver.putWrites(taskConfig('t'), [['x', 'first']], 'task'),
      saver.putWrites(
        taskConfig('t'),
        [
          ['x', 'second'],
          ['y', 'new'],
        ],
        'task',
      ),
      saver.putWrites(taskConfig('u'), [['x', 'other']], 'task'),
    ]);
    expect([await pendingOf(saver, 't'), await pendingOf(saver, 'u')]).toEqual([
      [
        ['task', 'x', 'first'],
        ['task', 'y', 'new'],
      ],
      [['task', 'x', 'other']],
    ]);
  });
});

it('separates threads with any characters in their ids, and deletes a large thread without touching others', async () => {
  const saver = newSaver();
  const threads = ['a', 'a/', 'a//', 'a:b', '%', '__proto__', '\u0000'];
  for (const thread_id of threads)
    await saver.put(
      { configurable: { thread_id } },
      checkpointWith({ x: thread_id.length }, { x: 1 }),
      metadata,
      { x: 1 },
    );
  await expect(
    saver.put({ configurable: { thread_id: '\ud800' } }, checkpointWith({}, {}), metadata, {}),
  ).rejects.toMatchObject({ code: 'invalid_request' });
  for (let round = 0; round < 3; round += 1) {
    const names = Array.from({ length: 900 }, (_, index) => `c${index}`);
    const versions = Object.fromEntries(names.map((name) => [name, round]));
    await saver.put(
      { configurable: { thread_id: 'a' } },
      checkpointWith(versions, versions),
      metadata,
      versions,
    );
  }
  await saver.deleteThread('a');
  expect(await saver.getTuple({ configurable: { thread_id: 'a' } })).toBeUndefined();
  const client = new Stoa({ url: running.url, token: running.alice });
  expect((await client.data(`checkpoints-${created}`).listKeys()).items).toHaveLength(
    2 * (threads.length - 1),
  );
  for (const thread_id of threads.slice(1))
    expect((await saver.getTuple({ configurable: { thread_id } }))?.config.configurable).toMatchObject({
      thread_id,
    });
});

async function stepsOf(saver: StoaSaver, thread_id: string): Promise<unknown[]> {
  const steps = [];
  for await (const { metadata: found } of saver.list({ configurable: { thread_id } }))
    steps.push(found?.step);
  return steps;
}

async function documents(): Promise<number> {
  const client = new Stoa({ url: running.url, token: running.alice });
  return Object.keys(await client.data(`checkpoints-${created}`).getAll()).length;
}

describe('prune', () => {
  const hourMs = 3_600_000;

  /** A checkpoint a step, each with its own value and write, made an hour apart; the last is new. */
  async function thread(saver: StoaSaver, thread_id: string, steps: number, delta = false) {
    let config: Parameters<StoaSaver['put']>[0] = { configurable: { thread_id } };
    const made = [];
    for (let step = 0; step < steps; step += 1) {
      const values = { x: 'long'.repeat(step === 0 ? 100_000 : 1) + step, same: 'same' };
      const checkpoint = {
        ...checkpointWith(values, { x: step, same: 0 }),
        id: uuid6(step),
        ts: new Date(Date.now() - (steps - 1 - step) * hourMs).toISOString(),
      };
      const counters =
        delta && step > 1 ? { counters_since_delta_snapshot: { d: [1, step - 1] as [number, number] } } : {};
      config = await saver.put(
        config,
        checkpoint,
        { ...metadata, step, ...counters },
        step === 0 ? { x: 0, same: 0 } : { x: step },
      );
      await saver.putWrites(config, [['x', step]], 'task');
      made.push(config);
    }
    return made;
  }

  it('by count leaves the newest of each thread, with all that they need and nothing else', async () => {
    const saver = newSaver();
    await thread(saver, 'a', 5);
    await thread(saver, 'b', 1);
    const config = { configurable: { thread_id: 'a' } };
    const before = await saver.getTuple(config);
    // Three checkpoints, their writes, and their values of x, one of which has three pieces.
    expect(await saver.prune({ keep: 2 })).toEqual({ checkpoints: 3, documents: 11 });
    expect([await stepsOf(saver, 'a'), await stepsOf(saver, 'b')]).toEqual([[4, 3], [0]]);
    expect(await saver.getTuple(config)).toEqual(before);
    expect(before?.checkpoint.channel_values).toEqual({ x: 'long4', same: 'same' });
    // Of a: two checkpoints, two writes, two values of x and one of same. Of b: a checkpoint, a write, x in three pieces, same.
    expect(await documents()).toBe(7 + 6);
    expect(await saver.prune({ keep: 2 })).toEqual({ checkpoints: 0, documents: 0 });
  });

  it('by age leaves the newest, or deletes whole threads, and only the named thread', async () => {
    const saver = newSaver();
    await thread(saver, 'a', 4);
    await thread(saver, 'b', 4);
    expect(await saver.prune({ threadId: 'a', olderThanSeconds: 5_400 })).toMatchObject({ checkpoints: 2 });
    expect([await stepsOf(saver, 'a'), await stepsOf(saver, 'b')]).toEqual([
      [3, 2],
      [3, 2, 1, 0],
    ]);
    expect(await saver.prune({ threadId: 'b', keep: 3, olderThanSeconds: 5_400 })).toMatchObject({
      checkpoints: 1,
    });
    expect(await stepsOf(saver, 'b')).toEqual([3, 2, 1]);
    await saver.prune({ keep: 0, olderThanSeconds: 0 });
    expect(await documents()).toBe(0);
  });

  it('leaves the checkpoints that a channel of the newest is rebuilt from', async () => {
    const saver = newSaver();
    await thread(saver, 'a', 5, true);
    await saver.prune({ keep: 1 });
    expect(await stepsOf(saver, 'a')).toEqual([4, 3, 2, 1]);
  });

  it.each([{}, { keep: 0 }, { keep: -1 }, { keep: 1.5 }, { olderThanSeconds: Number.NaN }])(
    'refuses %j',
    async (options) => {
      await expect(newSaver().prune(options)).rejects.toMatchObject({ code: 'invalid_request' });
    },
  );
});

it('stores checkpoints that are larger than one request', async () => {
  const saver = newSaver();
  const long = 'x'.repeat(20 * 1024 * 1024);
  const many = Object.fromEntries(Array.from({ length: 1_200 }, (_, index) => [`channel-${index}`, index]));
  const versions = Object.fromEntries(['long', ...Object.keys(many)].map((channel) => [channel, 1]));
  const config = await saver.put(
    { configurable: { thread_id: 't' } },
    checkpointWith({ long, ...many }, versions),
    metadata,
    versions,
  );
  const values = (await saver.get(config))?.channel_values ?? {};
  expect([values['long'] === long, values['channel-1199'], Object.keys(values).length]).toEqual([
    true,
    1_199,
    1_201,
  ]);
}, 120_000);

it('refuses a checkpoint that is too long even without its values', async () => {
  const saver = newSaver();
  const large = { ...metadata, note: 'x'.repeat(2 * 1024 * 1024) };
  const config = { configurable: { thread_id: 't' } };
  await expect(saver.put(config, checkpointWith({ x: 1 }, { x: 1 }), large, { x: 1 })).rejects.toMatchObject({
    code: 'too_large',
    message: expect.stringMatching(/checkpoint .* without its values/) as string,
    fix: expect.stringContaining('metadata') as string,
  });
  expect(await saver.getTuple(config)).toBeUndefined();
});

it('keeps one complete checkpoint of several concurrent puts', async () => {
  const saver = newSaver();
  const checkpoint = checkpointWith({}, { x: 1, y: 1 });
  const config = { configurable: { thread_id: 't' } };
  await Promise.all(
    Array.from({ length: 20 }, (_, turn) =>
      saver.put(
        config,
        { ...checkpoint, channel_values: { x: turn, y: turn } },
        { ...metadata, step: turn },
        { x: 1, y: 1 },
      ),
    ),
  );
  const tuple = await saver.getTuple(config);
  const { x, y } = tuple?.checkpoint.channel_values ?? {};
  expect([x, tuple?.metadata?.step]).toEqual([y, y]);
  const listed = [];
  for await (const found of saver.list(config)) listed.push(found);
  expect(listed).toHaveLength(1);
});

it('returns pending writes in the order of each task', async () => {
  const saver = newSaver();
  const config = await saver.put({ configurable: { thread_id: 't' } }, checkpointWith({}, {}), metadata, {});
  const writes = Array.from({ length: 120 }, (_, index): [string, number] => [`channel-${index % 3}`, index]);
  await Promise.all([
    saver.putWrites(config, writes, 'task-b'),
    saver.putWrites(config, writes.slice(0, 11), 'task-a'),
  ]);
  const pending = (await saver.getTuple(config))?.pendingWrites ?? [];
  expect(pending.filter(([task]) => task === 'task-b').map(([, , value]) => value)).toEqual(
    writes.map(([, value]) => value),
  );
  expect(pending.filter(([task]) => task === 'task-a').map(([, channel, value]) => [channel, value])).toEqual(
    writes.slice(0, 11),
  );
  await saver.deleteThread('t');
  expect(await saver.getTuple(config)).toBeUndefined();
  await saver.deleteThread('t');
});
