/** Runs the commands of the page for newcomers unchanged, twice, and compares the answers with the page. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useProgram } from '../cli/program.js';
import { blocksOf, root, shapeOf, valuesIn } from './pages.js';
import { machine, patternOf, stepsOf } from './terminal.js';

const program = useProgram();

test('every command of docs/first-hour.md prints what the page shows, and works again on the same data', async () => {
  const { server, run, place, home, project } = await machine(program, 'hour', '~/stoa');
  const blocks = await blocksOf('docs/first-hour.md');
  let commands = 0;
  for (const isFirst of [true, false]) {
    let before = '';
    for (const [index, { kind, text }] of blocks.entries()) {
      // The test of `npm start` covers installing.
      if (kind === 'sh' && text.includes('npm link')) continue;
      if (kind === 'sh' && text.startsWith('call()')) before += place(text);
      else if (kind === 'sh') {
        const answers: unknown[] = [];
        for (const line of text.trim().split('\n')) {
          const { result } = JSON.parse(await run(`${before}\n${line}`)) as {
            result: { isError?: boolean; structuredContent: unknown };
          };
          expect([line, result.isError]).toEqual([line, undefined]);
          answers.push(result.structuredContent);
          commands += 1;
        }
        const next = blocks[index + 1];
        const values = next?.kind === 'json' ? valuesIn(next.text) : [];
        if (isFirst && values.length > 0)
          expect(shapeOf(answers.slice(-values.length))).toEqual(shapeOf(values));
      } else if (kind === 'console')
        for (const { command, shown } of stepsOf({ kind, text })) {
          // The server is already up, on a free port.
          if (command.startsWith('stoa up ')) continue;
          if (command.startsWith('export ')) before += `${command}\n`;
          else {
            const output = await run(`${before}${command}`);
            if (isFirst && shown !== '') expect(output, command).toMatch(patternOf(place(shown)));
            commands += 1;
          }
        }
    }
  }
  expect(commands).toBeGreaterThan(30);

  const written = JSON.parse(await readFile(join(project, '.mcp.json'), 'utf8')) as {
    mcpServers: { stoa: { type: string; command: string; args: string[] } };
  };
  const printed = valuesIn(blocks.find(({ kind }) => kind === 'json')?.text ?? '')[0] as typeof written;
  expect(Object.keys(written.mcpServers.stoa)).toEqual(Object.keys(printed.mcpServers.stoa));
  // The last argument is the name of the repository.
  expect(written.mcpServers.stoa.args.slice(0, -1)).toEqual(printed.mcpServers.stoa.args.slice(0, -1));
  expect(await readFile(join(project, 'AGENTS.md'), 'utf8')).toContain('## Shared memory and work: Stoa');

  // The written configuration starts a working server, as an editor would.
  await server.end('SIGTERM');
  const again = await program.up(join(home, 'stoa'));
  const messages = [
    {
      id: 0,
      method: 'initialize',
      params: {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'editor', version: '1' },
      },
    },
    { method: 'notifications/initialized' },
    {
      id: 1,
      method: 'tools/call',
      params: { name: 'list', arguments: {} },
    },
  ].map((message) => `'${JSON.stringify({ jsonrpc: '2.0', ...message })}'`);
  const { command, args } = written.mcpServers.stoa;
  const output = await run(
    `printf '%s\\n' ${messages.join(' ')} | ${[command, ...args].map((word) => `'${word}'`).join(' ')}`,
  );
  expect(output).toContain('"id":1');
  expect(output).not.toContain('"isError":true');
  await again.end('SIGTERM');
}, 240_000);

test('llms.txt links every page of the documentation, and no missing page', async () => {
  const text = await readFile(join(root, 'llms.txt'), 'utf8');
  const links = Array.from(text.matchAll(/\]\(([^):#]+\.md)\)/g), ([, link]) => String(link));
  const pages = (await readdir(join(root, 'docs'), { recursive: true }))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`);
  expect(links.toSorted()).toEqual(pages.toSorted());
});
