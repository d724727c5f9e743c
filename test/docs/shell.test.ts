/** Runs the commands of the pages from top to bottom, unchanged, and compares their output with the page. */
import { expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { useProgram } from '../cli/program.js';
import { blocksOf, valuesIn } from './pages.js';
import { ids, kindOf, machine, patternOf, stepsOf } from './terminal.js';

const program = useProgram();

test('the commands of README.md print what it shows, and work again on the same data', async () => {
  const { server, run, place } = await machine(program, 'first', 'data');
  const steps = (await blocksOf('README.md')).filter(({ kind }) => kind === 'console').flatMap(stepsOf);
  expect(steps.length).toBeGreaterThan(14);
  const newest = new Map<string, string>();
  const exports = steps
    .flatMap(({ command }) => (command.startsWith('export ') ? [`${command}\n`] : []))
    .join('');
  const done = new Set<string>();
  for (const { command, shown } of [...steps, ...steps]) {
    // A restore never overwrites a directory.
    const isAgain = done.has(command);
    if (command.startsWith('export ') || (isAgain && command.includes(' restore '))) continue;
    done.add(command);
    const output = await run(exports + place(command).replaceAll(ids, (id) => newest.get(kindOf(id)) ?? id));
    // The first id in the output is the one that the command created.
    for (const [id] of Array.from(output.matchAll(ids)).toReversed()) newest.set(kindOf(id), id);
    if (shown !== '' && !isAgain) expect(output, command).toMatch(patternOf(shown));
  }
  await server.end('SIGTERM');
}, 180_000);

test('the watch commands of docs/feed.md work, and end cleanly when they are interrupted', async () => {
  const { server, run } = await machine(program, 'feed', '~/stoa');
  const stoa = new Stoa({ url: server.url, token: server.token });
  await stoa.data('notes').set('today', 'rain');
  const workspace = await stoa.workspaces.create({ name: 'w' });
  const project = await stoa.projects.create(workspace.id, { name: 'p' });
  const commands = (await blocksOf('docs/feed.md'))
    .filter(({ kind }) => kind === 'sh')
    .flatMap(({ text }) => text.trim().split('\n'));
  expect(commands.length).toBe(5);
  for (const command of commands) {
    const script = command
      .replace('PROJECT', project.id)
      .replace('ROOM', '00000000-0000-0000-0000-000000000001');
    // Interrupted as soon as it prints "live", as a person would. The output of the command before is deleted
    // by then.
    const output = await run(
      `: > out\n${script} --data ~/stoa > out 2>&1 & watch=$!\nuntil grep -qi live out; do kill -0 $watch; sleep 0.1; done\nkill $watch; wait $watch; cat out`,
    );
    if (command.includes('data')) expect(output).toContain('today  1  "rain"');
  }
  await server.end('SIGTERM');
}, 120_000);

test('the commands of docs/mcp.md work, and print the configuration that it shows', async () => {
  const { server, run } = await machine(program, 'mcp', '~/stoa');
  const blocks = await blocksOf('docs/mcp.md');
  const shells = blocks.flatMap(({ kind, text }, index) =>
    kind === 'sh' ? [{ text, next: blocks[index + 1] }] : [],
  );
  expect(shells.length).toBe(2);
  for (const { text, next } of shells) {
    // The server is already up; `stoa mcp` gets an empty pipe here.
    const script = text
      .replace(/^stoa up .*\n/m, '')
      .replace(/^(stoa mcp .*?) +#.*$/m, '$1 < /dev/null')
      .replace('STOA_TOKEN=…', 'STOA_TOKEN=secret');
    const output = await run(script);
    if (output.includes('{'))
      expect(valuesIn(output.slice(output.indexOf('{')))).toEqual(valuesIn(next?.text ?? ''));
    expect(output).not.toContain('secret');
  }
  await server.end('SIGTERM');
}, 120_000);

test.each(['docs/sdk.md', 'docs/commit.md', 'docs/langgraph.md'])(
  '%s has no commands that nothing runs',
  async (page) => {
    expect((await blocksOf(page)).filter(({ kind }) => kind === 'sh' || kind === 'console')).toEqual([]);
  },
);
