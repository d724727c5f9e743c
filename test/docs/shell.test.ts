/** Runs the commands of the pages from top to bottom, unchanged, and compares their output with the page. */
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { useProgram } from '../cli/program.js';
import { type Block, blocksOf, putOnPath, valuesIn } from './pages.js';

const program = useProgram();

/** A reader's machine: a home, a project, the program, and a server on a free port. */
async function machine(name: string, data: string) {
  const [home, project, bin] = ['home', 'project', 'bin'].map((part) => program.path(join(name, part))) as [
    string,
    string,
    string,
  ]; // map forgets how many there are.
  for (const directory of [home, project, bin]) await mkdir(directory, { recursive: true });
  await putOnPath(bin);
  const server = await program.up(join(data === '~/stoa' ? home : project, data.replace('~/', '')));
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([variable]) => !variable.startsWith('STOA_')),
  );
  const env = { ...inherited, HOME: home, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
  // Programs say what they do on one stream and print data on the other; a terminal shows both.
  const run = async (script: string): Promise<string> =>
    (
      await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', `exec 2>&1\n${script}`], {
        cwd: project,
        env,
      })
    ).stdout;
  const place = (text: string): string =>
    text
      .replaceAll('http://127.0.0.1:7862', server.url)
      .replaceAll('/var/backups/stoa', join(home, 'backups'));
  return { server, run, place };
}

/** Each command of a session at a terminal, with what the page shows of its output. */
function stepsOf({ text }: Block): { command: string; shown: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const lines = step.split('\n');
      // A command continues while a line ends with a backslash or a quote is open.
      let end = 1;
      while (
        end < lines.length &&
        (lines[end - 1]?.endsWith('\\') === true ||
          lines.slice(0, end).join('\n').split("'").length % 2 === 0)
      )
        end += 1;
      return { command: lines.slice(0, end).join('\n'), shown: lines.slice(end).join('\n').trim() };
    });
}

const ids = /\b(ws|proj|sess|task)_[0-9a-f-]{36}\b|\b[0-9a-f]{64}\b/g;

function kindOf(id: string): string {
  return id.includes('_') ? id.slice(0, id.indexOf('_')) : 'agent';
}

/** The output on a page as a pattern: ids and times match any others, and `…` matches anything. */
function patternOf(shown: string): RegExp {
  const parts: [RegExp, string][] = [
    [/\d{4}-\d\d-\d\dT[\d:.]+Z/, String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z`],
    [/(?:ws|proj|sess|task)_[0-9a-f-]{36}/, String.raw`[a-z]+_[0-9a-f-]{36}`],
    [/0{8}-[0-9a-f-]{27}/, String.raw`[0-9a-f-]{36}`],
    [/[0-9a-f]{36,64}/, '[0-9a-f]+'],
    [/\b[0-9a-f]{12}-/, '[0-9a-f]{12}-'],
    [/01[0-9A-Z]{24}/, '[0-9A-Z]{26}'],
    [/\b[0-9a-f]{8}\b/, '[0-9a-f]{8}'],
    [/\b[0-9A-HJKMNP-TV-Z]{8}\b/, '[0-9A-HJKMNP-TV-Z]{8}'],
    [/\b\d+[smhd]\b/, String.raw`\d+[smhd]`],
    [/…/, String.raw`[\s\S]*?`],
    [/\s+/, String.raw`\s+`],
  ];
  const tokens = new RegExp(parts.map(([part]) => `(${part.source})`).join('|'), 'g');
  let [source, at] = ['', 0];
  for (const match of shown.matchAll(tokens)) {
    source +=
      escaped(shown.slice(at, match.index)) +
      (parts[match.slice(1).findIndex((group) => group !== undefined)]?.[1] ?? '');
    at = match.index + match[0].length;
  }
  return new RegExp(`^\\s*${source}${escaped(shown.slice(at))}\\s*$`);
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

test('the commands of README.md print what it shows, from the first write to the restored backup', async () => {
  const { server, run, place } = await machine('first', 'data');
  const steps = (await blocksOf('README.md')).filter(({ kind }) => kind === 'console').flatMap(stepsOf);
  expect(steps.length).toBeGreaterThan(14);
  const newest = new Map<string, string>();
  let exports = '';
  for (const { command, shown } of steps) {
    if (command.startsWith('export ')) {
      exports += `${command}\n`;
      continue;
    }
    const output = await run(exports + place(command).replaceAll(ids, (id) => newest.get(kindOf(id)) ?? id));
    // The first id in the output is the one that the command created.
    for (const [id] of Array.from(output.matchAll(ids)).toReversed()) newest.set(kindOf(id), id);
    if (shown !== '') expect(output, command).toMatch(patternOf(shown));
  }
  await server.end('SIGTERM');
}, 180_000);

test('the watch commands of docs/feed.md work, and end cleanly when they are interrupted', async () => {
  const { server, run } = await machine('feed', '~/stoa');
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
  const { server, run } = await machine('mcp', '~/stoa');
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
