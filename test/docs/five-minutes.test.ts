/** Runs the commands of the page for newcomers unchanged, and compares the answers with the page. */
import { execFile } from 'node:child_process';
import { mkdir, readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { useProgram } from '../cli/program.js';
import { blocksOf, putOnPath, root, shapeOf, valuesIn } from './pages.js';

const program = useProgram();

test('every command of docs/five-minutes.md works, and prints what the page shows', async () => {
  const blocks = (await blocksOf('docs/five-minutes.md')).filter(
    ({ kind }) => kind === 'sh' || kind === 'json',
  );
  const [home, project, bin] = ['home', 'project', 'bin'].map((name) => program.path(name)) as [
    string,
    string,
    string,
  ]; // map forgets how many there are.
  for (const directory of [home, project, bin]) await mkdir(directory, { recursive: true });
  await putOnPath(bin);
  const server = await program.up(join(home, 'stoa'));
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('STOA_')),
  );
  const run = async (script: string) =>
    promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: project,
      env: { ...inherited, HOME: home, PATH: `${bin}:${process.env['PATH'] ?? ''}` },
    });

  // The test of `npm start` covers installing; the server is already up, on a free port.
  const commands = blocks.flatMap(({ kind, text }, index) =>
    kind === 'sh' && !text.includes('npm link')
      ? [{ index, text: text.replace(/^stoa up .*\n/m, '').replaceAll('http://127.0.0.1:7862', server.url) }]
      : [],
  );
  let before = '';
  for (const { index, text } of commands) {
    if (text.includes('call()')) {
      before += text;
      continue;
    }
    const lines = text.split('\n').filter((line) => line !== '');
    const answers: unknown[] = [];
    for (const line of lines) {
      const { stdout } = await run(`${before}\n${line}`);
      if (!line.startsWith('call ')) continue;
      const { result } = JSON.parse(stdout) as { result: { isError?: boolean; structuredContent: unknown } };
      expect([line, result.isError]).toEqual([line, undefined]);
      answers.push(result.structuredContent);
    }
    const shown = blocks[index + 1];
    if (answers.length === 0 || shown?.kind !== 'json') continue;
    const values = valuesIn(shown.text);
    expect(shapeOf(answers.slice(-values.length))).toEqual(shapeOf(values));
  }
  expect(commands.length).toBe(5);

  const written = JSON.parse(await readFile(join(project, '.mcp.json'), 'utf8')) as {
    mcpServers: { stoa: { type: string; command: string; args: string[] } };
  };
  const printed = valuesIn(blocks.find(({ kind }) => kind === 'json')?.text ?? '')[0] as typeof written;
  expect(Object.keys(written.mcpServers.stoa)).toEqual(Object.keys(printed.mcpServers.stoa));
  expect(written.mcpServers.stoa.args.slice(1)).toEqual(['mcp', '--data', join(home, 'stoa')]);
  expect(await readFile(join(project, 'AGENTS.md'), 'utf8')).toContain('## Shared memory and work: Stoa');

  // The written configuration starts a working server, as an editor would.
  await server.end('SIGTERM');
  const initialize = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'editor', version: '1' } },
  };
  const recall = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'recall', arguments: { key: 'decision/database' } },
  };
  const { command, args } = written.mcpServers.stoa;
  const again = await program.up(join(home, 'stoa'));
  const { stdout } = await run(
    `printf '%s\\n' '${JSON.stringify(initialize)}' '${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}' '${JSON.stringify(recall)}' | "${command}" ${args.map((argument) => `"${argument}"`).join(' ')}`,
  );
  expect(stdout).toContain('PostgreSQL 16');
  await again.end('SIGTERM');
}, 180_000);

test('llms.txt links every page of the documentation, and no missing page', async () => {
  const text = await readFile(join(root, 'llms.txt'), 'utf8');
  const links = Array.from(text.matchAll(/\]\(([^):#]+\.md)\)/g), ([, link]) => String(link));
  const pages = (await readdir(join(root, 'docs'), { recursive: true }))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`);
  expect(links.toSorted()).toEqual(pages.toSorted());
});
