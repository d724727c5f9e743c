/** A server that is killed while it writes, files and reindexes leaves an index that is equal to the data. */
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type StoaOptions, openStoa } from '../../src/index.js';
import { type RunningServer, useProgram } from '../cli/program.js';
import { sharedHome } from '../servers/shared.js';

const program = useProgram();
/** On LMDB, and half as many elsewhere. `npm run test:find` kills more often. */
const rounds = Number(process.env['KILL_ROUNDS'] ?? 2);
vi.setConfig({ testTimeout: rounds * 60_000 });
const writers = 6;
/** More keys than wait to be filed, so that filing begins too. */
const keysPerWriter = 60;
/** Acknowledged writes before the server is killed. */
const enough = 300;
const ada = operatorCaller('ada');
/** A document that a writer last wrote; null after a delete. */
type Written = string | null;

/** What was acknowledged for each key, and what was sent after it. */
class Story {
  readonly acknowledged = new Map<string, Written>();
  readonly sent = new Map<string, Written>();
  count = 0;
  words = 1_000;
}

/** A word of its own for each number, with no part that another word has. */
function wordOf(number: number): string {
  return `w${Array.from(String(number), (digit) => 'bcfhjkmpqt'[Number(digit)]).join('')}`;
}

async function send(
  { url, token }: RunningServer,
  method: string,
  path: string,
  body?: unknown,
): Promise<boolean> {
  try {
    const answer = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(path.startsWith('/v1/data') && { 'stoa-user': 'ada' }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    await answer.text();
    if (!answer.ok && answer.status !== 404) throw new Error(`${method} ${path}: ${answer.status}`);
    return true;
  } catch (error) {
    // The server was killed: the test looks at what it left.
    if (error instanceof TypeError) return false;
    throw error;
  }
}

/** Sets, deletes and documents that expire, without end until the server is gone. */
async function write(server: RunningServer, writer: number, story: Story): Promise<void> {
  for (let step = 0; ; step += 1) {
    const key = `w${writer}-${(step * 7) % keysPerWriter}`;
    const word = wordOf(story.words++);
    const path = `/v1/data/notes/${key}`;
    const next: Written = step % 4 === 3 ? null : word;
    story.sent.set(key, next);
    const isUp =
      next === null
        ? await send(server, 'DELETE', path)
        : await send(server, 'PUT', path, { value: { text: `walrus ${word} in the cold sea` } });
    if (!isUp) return;
    story.acknowledged.set(key, next);
    story.sent.delete(key);
    story.count += 1;
    const passing = { value: `passing walrus ${step}`, ttl: 1 };
    if (step % 5 === 0 && !(await send(server, 'PUT', `/v1/data/passing/${writer}-${step}`, passing))) return;
  }
}

async function reindexUntilGone(server: RunningServer): Promise<void> {
  while (await send(server, 'POST', '/v1/find/reindex', {}));
}

async function workAndKill(server: RunningServer, story: Story): Promise<void> {
  const before = story.count;
  const working = [
    ...Array.from({ length: writers }, (_, writer) => write(server, writer, story)),
    reindexUntilGone(server),
  ];
  while (story.count < before + enough) await new Promise((resolve) => setTimeout(resolve, 5));
  await server.end('SIGKILL');
  await Promise.all(working);
}

/** The doctor finds nothing. Every document is found by its word, and nothing by the words of deleted and older documents. */
async function expectFound(options: StoaOptions, story: Story): Promise<void> {
  const stoa = await openStoa(options);
  try {
    expect((await stoa.operations.examine(false)).findings).toEqual([]);
    for (const [key, acknowledged] of story.acknowledged) {
      const document = (await stoa.data.get(ada, 'notes', key)) as { text: string } | undefined;
      const current = document?.text.split(' ')[1] ?? null;
      expect([acknowledged, story.sent.get(key) ?? acknowledged]).toContain(current);
      story.acknowledged.set(key, current);
      // The doctor has compared all of them; these few are looked for.
      if (!key.endsWith('7')) continue;
      const { items } = await stoa.find.find(ada, { q: current ?? acknowledged ?? 'nothing', in: ['data'] });
      expect(items.map((item) => item.key)).toEqual(current === null ? [] : [key]);
    }
    story.sent.clear();
  } finally {
    await stoa.close();
  }
}

describe.each(['lmdb', 'rocksdb'] as const)('a killed server on a directory of %s', (engine) => {
  test('leaves an index that is equal to the data', async () => {
    const data = program.path(`kill-${engine}`);
    const story = new Story();
    for (let round = 0; round < (engine === 'lmdb' ? rounds : rounds / 2); round += 1) {
      await workAndKill(await program.up(data, ['--engine', engine]), story);
      const { status, stdout, stderr } = await program.stoa(['doctor', '--data', data, '--json']);
      expect(status, stdout + stderr).toBe(0);
      await expectFound({ data }, story);
    }
  });
});

describe('a killed server on PostgreSQL', () => {
  let home: Awaited<ReturnType<typeof sharedHome>>;
  beforeAll(async () => {
    home = await sharedHome();
  });

  test('leaves an index that is equal to the data', async () => {
    const story = new Story();
    const { args, environment, options } = home;
    for (let round = 0; round < rounds / 2; round += 1) {
      const server = await program.up(program.path('none'), args, environment);
      await workAndKill(server, story);
      await expectFound(options, story);
    }
  });
});
