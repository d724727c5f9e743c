import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StoaError } from '../../../src/core/errors.js';
import { Output, type OutputOptions, counted } from '../../../src/cli/output/output.js';
import { ShownIds } from '../../../src/cli/output/short-ids.js';
import { ageText } from '../../../src/cli/output/table.js';

let state: string;
beforeAll(async () => {
  state = await mkdtemp(join(tmpdir(), 'stoa-output-'));
});
afterAll(() => rm(state, { recursive: true }));

function printed(write: (output: Output) => void, options: Partial<OutputOptions> = {}): string {
  const stdout = new PassThrough();
  const environment = { XDG_STATE_HOME: state };
  write(new Output({ json: false, stdout, stderr: new PassThrough(), environment, ...options }));
  return String(stdout.read());
}

test('times are exact in the fields of a value and in wide tables', () => {
  const at = '2026-01-31T12:00:00.000Z';
  const headings = ['AT', 'CREATED', 'UPDATED', 'EXPIRES', 'CLOSED_AT', 'LAST_USED_AT', 'LAST_SEEN'];
  const table = printed(
    (output) =>
      output.list(
        { items: [at] },
        headings.map((heading) => [heading, (item: string) => item] as const),
        '',
      ),
    { wide: true },
  );
  expect(table.split('\n')[1]?.split(/ +/)).toEqual(headings.map(() => '2026-01-31T12:00:00.000Z'));
  expect(printed((output) => output.value({ closed_at: at }))).toBe('closed_at  2026-01-31T12:00:00.000Z\n');
});

test.each([
  [0, '0s'],
  [59_999, '59s'],
  [90_000, '1m'],
  [7_200_000, '2h'],
  [40 * 86_400_000, '40d'],
  [-300, '0s'],
  [-90_000, 'in 1m'],
])('a time %i ms ago is %s', (ageMs, text) => {
  expect(ageText(ageMs)).toBe(text);
});

const task = {
  id: 'task_01a1e1cd-0f8d-7000-924e-e12bad76e2b0',
  agent: '6a880eb2dfbaafec53115ab25a2fef637cb9ce5ba0a8ec472025b9747798384f',
  command: `echo 機械学習 😀 ${'x'.repeat(200)}`,
  updated: new Date(Date.now() - 65_000).toISOString(),
};
const columns = [
  ['ID', (item: typeof task) => item.id],
  ['AGENT', (item: typeof task) => item.agent],
  ['COMMAND', (item: typeof task) => item.command],
  ['UPDATED', (item: typeof task) => item.updated],
] as const;

/** Columns of a terminal: the wide characters of the tests take two. */
function columnsOf(line: string): number {
  return Array.from(line).reduce((sum, character) => sum + (/[機械学習😀]/u.test(character) ? 2 : 1), 0);
}

test('a table has short ids and ages, and no line is wider than 80 columns', () => {
  const lines = printed((output) => output.list({ items: [task] }, columns, ''))
    .trimEnd()
    .split('\n');
  expect(lines.map((line) => columnsOf(line) <= 80)).toEqual([true, true]);
  expect(lines[1]).toMatch(/^task_ad76e2b0 {2}7798384f {2}echo 機械学習 😀 x+… {2}1m$/);
});

test('a table fits a narrow terminal, whatever it contains', () => {
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 30 });
  new Output({ json: false, stdout, environment: { XDG_STATE_HOME: state, NO_COLOR: '1' } }).list(
    { items: [task] },
    columns,
    '',
  );
  const lines = String(stdout.read()).trimEnd().split('\n');
  expect(lines.map((line) => columnsOf(line) <= 30)).toEqual([true, true]);
});

const message = {
  at: task.updated,
  id: '01M7PCDTFZKAJ3C38M6W4CD4W8',
  body: 'One 機械 line, long enough.\nNext',
};
const messageColumns = [
  ['AT', (item: typeof message) => item.at],
  ['ID', (item: typeof message) => item.id],
  ['BODY', (item: typeof message) => item.body],
] as const;

const show = (output: Output) => output.list({ items: [message] }, messageColumns, '', 'BODY');

test('a text that is shown whole continues below itself in a terminal, and only there', () => {
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 34 });
  show(new Output({ json: false, stdout, environment: { XDG_STATE_HOME: state, NO_COLOR: '1' } }));
  const lines = String(stdout.read()).trimEnd().split('\n');
  expect(lines).toEqual([
    'AT  ID        BODY',
    '1m  6W4CD4W8  One 機械 line, long',
    '              enough.',
    '              Next',
  ]);
  expect(printed(show).split('\n').slice(1, 3)).toEqual([
    '1m  6W4CD4W8  One 機械 line, long enough.',
    '              Next',
  ]);
});

test('an error breaks no word at the end of a line of a terminal, and is one line elsewhere', () => {
  const error = new StoaError('conflict', 'The lock is held by another agent.', {
    fix: 'Ask it to release it.',
  });
  const print = (terminal: object): string[] => {
    const stderr = Object.assign(new PassThrough(), terminal);
    new Output({ json: false, stderr, environment: { NO_COLOR: '1' } }).error(error);
    return String(stderr.read()).trimEnd().split('\n');
  };
  expect(print({ isTTY: true, columns: 30 })).toEqual([
    'error The lock is held by',
    '      another agent.',
    '      (conflict)',
    'fix   Ask it to release it.',
  ]);
  expect(print({})).toEqual([
    'error The lock is held by another agent. (conflict)',
    'fix   Ask it to release it.',
  ]);
});

test('a word that is longer than the line is broken, and nothing of it is lost', () => {
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 40 });
  const body = `see ${'x'.repeat(70)} now`;
  new Output({ json: false, stdout, environment: { XDG_STATE_HOME: state, NO_COLOR: '1' } }).list(
    { items: [{ ...message, body }] },
    messageColumns,
    '',
    'BODY',
  );
  const lines = String(stdout.read()).trimEnd().split('\n').slice(1);
  expect(lines.map((line) => line.length <= 40)).toEqual(lines.map(() => true));
  expect(
    lines
      .map((line) => line.slice(14))
      .join('')
      .replaceAll(' ', ''),
  ).toBe(body.replaceAll(' ', ''));
});

test('keys in ids of the feed are text', () => {
  const ids = ['default/~ZGVjaXNpb25zL2RhdGFiYXNl', '~c3JjL2FwcC50cw', 'a/~not base64'];
  const table = printed((output) => output.list({ items: ids }, [['ID', (id: string) => id]], ''));
  expect(table.split('\n').slice(1, 4)).toEqual([
    'default/decisions/database',
    'src/app.ts',
    'a/~not base64',
  ]);
});

test('a value shows the fields that say something, each on a line', () => {
  const value = {
    id: 'x',
    output: null,
    labels: {},
    tags: [],
    lease: { holder: 'scout', note: '' },
    tries: 0,
  };
  expect(printed((output) => output.value(value))).toBe(
    'id            x\nlease.holder  scout\ntries         0\n',
  );
});

/** Clears the screen, rings, begins an escape with one character, turns the text around in three ways, ends a line. */
const marks = '\u001B[2J\u0007\u009B\u202E\u2066\u061C\u2028';
const escapes = '\\x1b[2J\\x07\\x9b\\u202e\\u2066\\u061c\\u2028';

test.each<[door: string, write: (output: Output) => void, shown: string]>([
  ['a field', (output) => output.value({ [`a${marks}`]: marks }), `a${escapes}  ${escapes}\n`],
  [
    'a table',
    (output) => output.list({ items: [marks] }, [['TEXT', (text) => text]], ''),
    `TEXT\n${escapes}\n`,
  ],
  [
    'a folded column',
    (output) => output.list({ items: [marks] }, [['TEXT', (text) => text]], '', 'TEXT'),
    `  TEXT\n  ${escapes}\n`,
  ],
  ['a stream', (output) => output.line({}, `a\tb${marks}\nc`), `a\tb${escapes}\n  c\n`],
  ['a sentence', (output) => output.say(marks), `${escapes}\n`],
  [
    'an error',
    (output) => output.error(new StoaError('not_found', marks, { fix: marks })),
    `error ${escapes} (not_found)\nfix   ${escapes}\n`,
  ],
])('no control character and no mark of direction reaches the terminal in %s', (_door, write, shown) => {
  const stream = new PassThrough();
  write(new Output({ json: false, stdout: stream, stderr: stream, environment: { XDG_STATE_HOME: state } }));
  expect(String(stream.read())).toBe(shown);
});

test('JSON has the same value without such characters, and a raw text is unchanged unless a terminal reads it', () => {
  const json = printed((output) => output.value({ text: `${marks}\n` }), { json: true });
  expect(json).toMatch(/^[\n\x20-\x7E]*$/);
  expect(JSON.parse(json)).toEqual({ text: `${marks}\n` });
  const raw = (isTTY: boolean): string => {
    const stdout = Object.assign(new PassThrough(), { isTTY });
    new Output({ json: false, stdout, stderr: stdout }).stored({}, `a\n${marks}`, true);
    return String(stdout.read());
  };
  expect([raw(false), raw(true)]).toEqual([`a\n${marks}\n`, `a\n${escapes}\n`]);
});

test('every short id of a table is understood again; other texts are unchanged', () => {
  const shown = new ShownIds({ XDG_STATE_HOME: state });
  printed((output) => output.list({ items: [task] }, columns, ''));
  expect(shown.whole('task_ad76e2b0')).toBe(task.id);
  expect(shown.whole('7798384f')).toBe(task.agent);
  for (const text of ['deadbeef', 'scout', 'task_01', task.id]) expect(shown.whole(text)).toBe(text);
});

test('ids are whole where they cannot be remembered', async () => {
  const file = join(state, 'file');
  await writeFile(file, '');
  const table = printed((output) => output.list({ items: [task] }, columns.slice(0, 1), ''), {
    environment: { XDG_STATE_HOME: file },
  });
  expect(table).toContain(task.id);
});

function idOf(at: number): string {
  return `task_01a1e1cd-0f8d-7000-924e-0000${String(at).padStart(8, '0')}`;
}

test('the ids that are remembered have a limit, and the newest stay', () => {
  const shown = new ShownIds({ XDG_STATE_HOME: join(state, 'many') });
  for (let start = 0; start < 10_000; start += 1_000)
    shown.remember(Array.from({ length: 1_000 }, (_, at) => idOf(start + at)));
  expect([shown.whole('task_00000000'), shown.whole('task_00009999')]).toEqual([
    'task_00000000',
    idOf(9_999),
  ]);
});

test('one is singular', () => {
  expect([counted(0, 'document'), counted(1, 'document'), counted(2, 'document')]).toEqual([
    '0 documents',
    '1 document',
    '2 documents',
  ]);
});
