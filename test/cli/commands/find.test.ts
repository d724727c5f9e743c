import { beforeAll, describe, expect, test } from 'vitest';
import { useServedProgram } from '../served.js';

const { run, json, stoa, data } = useServedProgram();

const found = async (...words: string[]): Promise<string[]> => {
  const { items } = await json<{ items: { key: string }[] }>('find', ...words);
  return items.map(({ key }) => key);
};

describe('stoa find', () => {
  beforeAll(async () => {
    for (const [key, value] of Object.entries({
      production: { text: 'We deploy to production on Monday.', status: 'open', priority: 1 },
      staging: { text: 'We deploy to the staging cluster at night.', status: 'open', priority: 2 },
      editor: { text: 'Everyone chooses their own editor.', status: 'done', priority: 3 },
    }))
      await json('data', 'set', key, JSON.stringify(value));
  });

  test('words are one search, however the shell passes them', async () => {
    for (const words of [['which', 'editor', 'to', 'choose'], ['which editor to choose']])
      expect((await found(...words))[0]).toBe('editor');
    expect(await found('dep*', 'monday')).toEqual(['production', 'staging']);
    expect(await found('"staging cluster" -monday')).toEqual(['staging']);
    const dashed = await stoa(['find', '--json', '--data', data(), 'deploy', '--', '-staging']);
    expect(dashed.json<{ items: object[] }>().items).toMatchObject([{ key: 'production' }]);
  });

  test('a filter and sorting need no words', async () => {
    expect(await found('--filter', '{"status": "open"}', '--sort', '-priority')).toEqual([
      'staging',
      'production',
    ]);
    expect(await found('--sort', 'priority')).toEqual(['production', 'staging', 'editor']);
  });

  test('an excerpt cannot control the terminal or turn its text around', async () => {
    await json('data', 'set', 'pirate', JSON.stringify('parrot \u202Etxt.exe\u202C \u001B]0;title\u0007'));
    const { stdout } = await stoa(['find', '--data', data(), '--wide', 'parrot']);
    expect(stdout).toContain('**parrot** \\u202etxt.exe\\u202c \\x1b]0;title\\x07');
    expect(stdout).not.toMatch(/[^\n\x20-\x7E]/);
  });

  test('a search for nothing, and a word that looks like an option, are refused with what to do', async () => {
    const nothing = await run('find', '--json');
    expect([nothing.status, nothing.error().detail]).toEqual([2, 'The search has no words and no filter.']);
    expect((await run('find', '', '--json')).error().detail).toBe('The search has no words and no filter.');
    const dashed = await run('find', 'deploy', '-staging', '--json');
    expect(dashed.status).toBe(2);
    expect(dashed.error()).toMatchObject({
      detail: 'Unknown option "-staging".',
      fix: expect.stringContaining('after "--"'),
    });
  });
});
