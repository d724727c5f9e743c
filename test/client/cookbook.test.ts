import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { type Stoa as OpenedStoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';

let opened: OpenedStoa;
let stoa: Stoa;
let stop: () => Promise<void>;

beforeAll(async () => {
  opened = await openStoa({ data: 'unused', engine: 'memory' });
  const app = createApp(opened);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  stoa = new Stoa({
    url: `http://127.0.0.1:${port}`,
    token: opened.operatorToken,
    user: 'ada',
    agent: 'cook',
  });
  stop = async () => {
    await stopApp(app, 5);
    await opened.close();
  };
});
afterAll(() => stop());

const recipes = (await readFile(new URL('../../docs/cookbook.md', import.meta.url), 'utf8'))
  .split(/^## /m)
  .slice(1);

test('the cookbook has its recipes', () => {
  expect(recipes.length).toBeGreaterThan(4);
});

test.each(recipes.map((recipe) => [recipe.split('\n', 1)[0] ?? '', recipe]))(
  '%s runs, and answers what its comments say',
  async (_title, recipe) => {
    const code = /```js\n([\s\S]*?)```/.exec(recipe)?.[1] ?? '';
    expect(code).not.toBe('');
    // `await x;   // result` becomes a check of the result.
    const checked = code.replaceAll(
      /^(await .+?|\(await .+);\s*\/\/ (.+)$/gm,
      (line, call: string, comment: string) => (isValue(comment) ? `check(${call}, ${comment});` : line),
    );
    const run = new Function('stoa', 'check', `return (async () => {\n${checked}\n})();`) as (
      stoa: Stoa,
      check: (seen: unknown, said: unknown) => void,
    ) => Promise<void>;
    await run(stoa, (seen, said) => expect(seen).toEqual(said));
  },
);

/** A comment that is a JavaScript literal. */
function isValue(comment: string): boolean {
  return /^(\d+|'[^']*'|\[.*\]|\{.*\})$/.test(comment);
}
