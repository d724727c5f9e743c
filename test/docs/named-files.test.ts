/** The pages name files of the source: each must exist, and a walk through the code must stay short. */
import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from './pages.js';

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  ...(await readdir(join(root, 'docs'), { recursive: true }))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];
const filesPerWalkMax = 12;

/** Paths like `src/feed/service.ts`; patterns with `<domain>` or `*` are left out. */
function filesIn(text: string): string[] {
  return Array.from(text.matchAll(/`((?:src|test|bench|scripts)\/[\w./-]+)`/g), ([, path]) => String(path));
}

test.each(pages)('every file that %s names exists', async (page) => {
  const named = filesIn(await readFile(join(root, page), 'utf8'));
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test('docs/architecture.md follows each of six requests through at most a dozen files', async () => {
  const text = await readFile(join(root, 'docs/architecture.md'), 'utf8');
  const [, section = ''] = text.split('## Six requests, file by file\n');
  const walks = (section.split(/^## /m)[0] ?? '').split(/^### /m).slice(1);
  const counts = walks.map((walk) => new Set(filesIn(walk)).size);
  expect(counts).toHaveLength(6);
  expect(counts.filter((count) => count === 0 || count > filesPerWalkMax)).toEqual([]);
});
