/** The code blocks of the documentation, and the comparison of their output with real output. */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { builtProgram } from '../servers/shared.js';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

export interface Block {
  /** The word behind the opening fence: `sh`, `console`, `json` … */
  kind: string;
  text: string;
}

export async function blocksOf(page: string): Promise<Block[]> {
  const text = await readFile(join(root, page), 'utf8');
  return Array.from(text.matchAll(/^```(\w*).*\n([\s\S]*?)^```$/gm), ([, kind = '', block = '']) => ({
    kind,
    text: block,
  }));
}

/** The program under the names by which the pages call it. */
export async function putOnPath(directory: string): Promise<void> {
  const program = `exec "${process.execPath}" "${await builtProgram()}" "$@"`;
  await writeFile(join(directory, 'stoa'), `#!/bin/sh\n${program}\n`);
  await writeFile(
    join(directory, 'npx'),
    `#!/bin/sh\n[ "$1" = -y ] && shift\n[ "$1" = stoa ] || exit 127\nshift\n${program}\n`,
  );
  for (const name of ['stoa', 'npx']) await chmod(join(directory, name), 0o755);
}

/** The names and kinds of everything in a value; ids, times and places differ from run to run. */
export function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return value === null ? null : typeof value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, member]) => [name, shapeOf(member)])
      .toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
  );
}

/** JSON values one after the other, each on one or more lines. */
export function valuesIn(text: string): unknown[] {
  const found: unknown[] = [];
  let rest = '';
  for (const line of text.split('\n')) {
    rest += line;
    try {
      found.push(JSON.parse(rest));
      rest = '';
    } catch {
      // The value continues on the next line.
    }
  }
  expect(rest).toBe('');
  return found;
}
