import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { mergeJson, mergeMarked, mergeToml } from '../../../../src/cli/editors/merge-settings.js';
import { scopeOfRemote } from '../../../../src/cli/editors/repository.js';
import { useCommands } from '../../command-host.js';

const program = useCommands();

/** A separate project and home directory. */
async function place(
  name: string,
): Promise<{ cwd: string; home: string; options: { cwd: string; environment: Record<string, string> } }> {
  const cwd = program.path(`${name}/project`);
  const home = program.path(`${name}/home`);
  await mkdir(cwd, { recursive: true });
  await mkdir(home, { recursive: true });
  return { cwd, home, options: { cwd, environment: { HOME: home } } };
}

test('prints an entry that can be committed: without absolute paths, and with the name of the repository', async () => {
  const { options, cwd, home } = await place('print');
  await writeFile(join(cwd, 'keep'), '');
  const { stdout, status } = await program.stoa(
    ['connect', 'claude-code', '--data', join(home, 'mine'), '--agent', 'scout', '--user', 'ada'],
    options,
  );
  expect(status).toBe(0);
  expect(JSON.parse(stdout).mcpServers.stoa).toEqual({
    type: 'stdio',
    command: 'npx',
    args: [
      '-y',
      'stoa',
      'mcp',
      '--data',
      '~/mine',
      '--scope',
      'project',
      '--user',
      'ada',
      '--agent',
      'scout',
    ],
  });
  expect(stdout).not.toContain(cwd);
});

test('writes entry, hooks and instructions once, and removes all of it', async () => {
  const { options, cwd } = await place('whole');
  const settings = join(cwd, '.claude/settings.json');
  await mkdir(join(cwd, '.claude'));
  const own = { hooks: { SessionStart: [{ hooks: [{ type: 'command', command: 'date' }] }] }, model: 'x' };
  await writeFile(settings, JSON.stringify(own));
  await writeFile(join(cwd, 'CLAUDE.md'), '# Ours\n');
  const dry = await program.stoa(['connect', 'claude-code', '--dry-run', '--json'], options);
  expect(dry.json<{ files: { changed: boolean }[] }>().files.map(({ changed }) => changed)).toEqual([
    true,
    true,
    true,
    true,
  ]);
  expect(await readFile(settings, 'utf8')).toBe(JSON.stringify(own));
  for (const changed of [true, false]) {
    const { files } = (await program.stoa(['connect', 'claude-code', '--write', '--json'], options)).json<{
      files: { file: string; changed: boolean }[];
    }>();
    expect(files.map((one) => [one.file.slice(cwd.length + 1), one.changed])).toEqual(
      ['.mcp.json', '.claude/settings.json', 'AGENTS.md', 'CLAUDE.md'].map((file) => [file, changed]),
    );
  }
  const { hooks, model } = JSON.parse(await readFile(settings, 'utf8'));
  expect(model).toBe('x');
  expect(hooks.SessionStart).toHaveLength(2);
  expect(hooks.SessionStart[1].hooks[0].command).toMatch(/^npx -y stoa hook start --scope project /);
  expect(hooks.UserPromptSubmit).toHaveLength(1);
  expect(hooks.PostToolUse).toMatchObject([{ matcher: 'mcp__stoa__agents' }]);
  for (const file of ['AGENTS.md', 'CLAUDE.md']) {
    const text = await readFile(join(cwd, file), 'utf8');
    expect(text.split('Shared memory and work')).toHaveLength(2);
    expect(text).toContain('the namespace `project`');
  }
  await program.stoa(['connect', 'claude-code', '--remove'], options);
  expect(JSON.parse(await readFile(settings, 'utf8'))).toEqual({ ...own });
  expect(await readFile(join(cwd, 'CLAUDE.md'), 'utf8')).toBe('# Ours\n');
  expect(JSON.parse(await readFile(join(cwd, '.mcp.json'), 'utf8'))).toEqual({ mcpServers: {} });
});

test.each([
  ['gemini', '.gemini/settings.json', { SessionStart: 'start', BeforeAgent: 'prompt', AfterTool: 'tool' }],
  ['codex', '.codex/hooks.json', { SessionStart: 'start', UserPromptSubmit: 'prompt', PostToolUse: 'tool' }],
  ['cursor', '.cursor/hooks.json', { sessionStart: 'start' }],
])('writes the hooks of %s once, beside those of others, and removes them', async (target, path, events) => {
  const { options, cwd } = await place(`hooks-${target}`);
  const file = join(cwd, path);
  const [first = ''] = Object.keys(events);
  const other = { command: 'date', hooks: [{ type: 'command', command: 'date' }] };
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, JSON.stringify({ theme: 'dark', hooks: { [first]: [other] } }));
  for (const changed of [true, false]) {
    const { files } = (await program.stoa(['connect', target, '--write', '--json'], options)).json<{
      files: { file: string; changed: boolean }[];
    }>();
    expect(files.filter((one) => one.file === file)).toMatchObject([{ changed }]);
  }
  const { hooks, theme, version } = JSON.parse(await readFile(file, 'utf8'));
  expect([theme, version]).toEqual(['dark', target === 'cursor' ? 1 : undefined]);
  expect(Object.keys(hooks)).toEqual(Object.keys(events));
  for (const [event, argument] of Object.entries(events)) {
    const ours = hooks[event].at(-1);
    expect((target === 'cursor' ? ours : ours.hooks[0]).command).toMatch(
      new RegExp(`^npx -y stoa hook ${argument} --scope project --program ${target} --data `),
    );
  }
  expect(hooks[first]).toHaveLength(2);
  await program.stoa(['connect', target, '--remove'], options);
  expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({
    theme: 'dark',
    hooks: { [first]: [other] },
  });
  expect(await readFile(file, 'utf8')).not.toContain('stoa hook');
});

test('the hooks look at the data, the user and the agent of the MCP server', async () => {
  const { options, home } = await place('hooks');
  const data = join(home, 'my data');
  const flags = ['--data', data, '--user', "ada's", '--agent', 'scout'];
  await program.stoa(['connect', 'claude-code', '--write', ...flags], options);
  const { hooks } = JSON.parse(await readFile(join(options.cwd, '.claude/settings.json'), 'utf8'));
  expect(hooks.UserPromptSubmit[0].hooks[0].command).toBe(
    `npx -y stoa hook prompt --scope project --data ~/'my data' --user 'ada'\\''s' --agent scout`,
  );
});

test.each([
  ['git@github.com:acme/shop.git', 'acme/shop'],
  ['https://ada:secret@git.example.org/group/acme/shop.git/', 'acme/shop'],
  ['ssh://git@host:2222/acme/shop', 'acme/shop'],
  ['/srv/git/shop.git', 'git/shop'],
  ['shop', 'shop'],
])('names the repository of the remote %s', (remote, scope) => {
  expect(scopeOfRemote(remote)).toBe(scope);
});

test('merges into a file and keeps all that is there, with a backup', async () => {
  const { options, cwd } = await place('merge');
  const before = '{\n    "mcpServers": {\n        "other": {"command": "x"}\n    },\n    "more": [1, 2]\n}\n';
  await writeFile(join(cwd, '.mcp.json'), before);
  expect((await program.stoa(['connect', 'claude-code', '--write'], options)).status).toBe(0);
  const after = JSON.parse(await readFile(join(cwd, '.mcp.json'), 'utf8'));
  expect(after).toMatchObject({
    mcpServers: { other: { command: 'x' }, stoa: { type: 'stdio' } },
    more: [1, 2],
  });
  const backups = (await readdir(cwd)).filter((name) => name.endsWith('.bak'));
  expect(backups.length).toBe(1);
  expect(await readFile(join(cwd, backups[0] ?? ''), 'utf8')).toBe(before);
  expect(
    (await program.stoa(['connect', 'claude-code', '--write', '--json'], options)).json<{
      changed: boolean;
    }>().changed,
  ).toBe(false);
  expect((await readdir(cwd)).filter((name) => name.startsWith('.mcp.json'))).toHaveLength(2);
});

test('keeps the comments of a file, and does not change a file that it cannot parse', async () => {
  const { options, cwd } = await place('comments');
  await mkdir(join(cwd, '.vscode'));
  const path = join(cwd, '.vscode/mcp.json');
  await writeFile(path, '{\n  // mine\n  "servers": {}\n}\n');
  expect((await program.stoa(['connect', 'vscode', '--write'], options)).status).toBe(0);
  expect(await readFile(path, 'utf8')).toMatch(/^\{\n {2}\/\/ mine\n {2}"servers": \{\n {4}"stoa": \{/);
  const broken = '{\n  "servers": {,}\n}\n';
  await writeFile(path, broken);
  const { status, stderr } = await program.stoa(['connect', 'vscode', '--write'], options);
  expect(status).toBe(2);
  expect(stderr).toContain(path);
  expect(stderr).toContain('without --write');
  expect(await readFile(path, 'utf8')).toBe(broken);
});

test.each([
  ['claude-desktop', '.config/Claude/claude_desktop_config.json'],
  ['windsurf', '.codeium/windsurf/mcp_config.json'],
  ['codex', '.codex/config.toml'],
])('writes the file of %s in the home directory', async (name, path) => {
  const { options, home } = await place(name);
  expect((await program.stoa(['connect', name, '--write'], options)).status).toBe(0);
  expect(await readFile(join(home, path), 'utf8')).toContain('stoa');
});

test('names an address and keeps the token out of the file', async () => {
  const { options } = await place('http');
  const { stdout } = await program.stoa(
    ['connect', 'cursor', '--url', 'https://stoa.example.org', '--token', 'secret'],
    options,
  );
  expect(JSON.parse(stdout).mcpServers.stoa).toEqual({
    url: 'https://stoa.example.org/mcp',
    headers: { Authorization: 'Bearer ${env:STOA_TOKEN}' },
  });
});

test('adds the text for agents once, between markers', async () => {
  const { options, cwd } = await place('agents');
  await writeFile(join(cwd, 'AGENTS.md'), '# Ours\n');
  await program.stoa(['connect', 'agents-md', '--write'], options);
  await program.stoa(['connect', 'agents-md', '--write'], options);
  const text = await readFile(join(cwd, 'AGENTS.md'), 'utf8');
  expect(text.startsWith('# Ours\n')).toBe(true);
  expect(text.split('Shared memory and work').length).toBe(2);
});

test('suggests the program that was meant', async () => {
  const { status, stderr } = await program.stoa(['connect', 'curser'], { cwd: program.directory() });
  expect(status).toBe(2);
  expect(stderr).toContain('cursor');
});

test('only the TOML table is replaced', () => {
  const before =
    'model = "x"\n\n[mcp_servers.stoa]\ncommand = "old"\nargs = []\n\n[mcp_servers.other]\ncommand = "y" # keep\n';
  const after = mergeToml(before, 'mcp_servers', 'stoa', { command: 'new', args: ['a "b"'] });
  expect(after).toBe(
    'model = "x"\n\n[mcp_servers.stoa]\ncommand = "new"\nargs = ["a \\"b\\""]\n\n[mcp_servers.other]\ncommand = "y" # keep\n',
  );
  expect(mergeToml(after, 'mcp_servers', 'stoa', { command: 'new', args: ['a "b"'] })).toBe(after);
});

test('an entry that another program added beside ours stays', () => {
  const once = mergeJson('{"mcpServers":{"stoa":{"command":"old"},"b":{}},"z":null}', 'mcpServers', 'stoa', {
    command: 'new',
  });
  expect(JSON.parse(once)).toEqual({ mcpServers: { stoa: { command: 'new' }, b: {} }, z: null });
  expect(() => mergeJson('[]', 'mcpServers', 'stoa', {})).toThrow();
  expect(() => mergeJson('{"mcpServers":[]}', 'mcpServers', 'stoa', {})).toThrow();
});

test('text outside the markers is never changed', () => {
  const marks = ['<a>', '</a>'] as const;
  expect(mergeMarked('x\n<a>\nold\n</a>\ny\n', marks, 'new')).toBe('x\n<a>\nnew\n</a>\ny\n');
  expect(mergeMarked('', marks, 'new')).toBe('<a>\nnew\n</a>\n');
});
