/** Adds one entry to files of other programs and keeps the rest. */
import { parse } from 'jsonc-parser';
import { describe, expect, it } from 'vitest';
import { mergeJson, mergeToml } from '../../../src/cli/editors/merge-settings.js';

const entry = { command: 'node', args: ['main.js', 'mcp'] };
const toml = (text: string) => mergeToml(text, 'mcp_servers', 'stoa', entry, 'config.toml');
const read = (text: string): unknown => parse(text, [], { allowTrailingComma: true });
const merge = (text: string) => mergeJson(text, 'servers', 'stoa', entry, 'mcp.json');

describe('a JSON file', () => {
  it.each([
    ['nothing', '', []],
    ['an empty object', '{}', []],
    [
      'comments, commas after the last member, tabs and numbers that no program can hold',
      '{\n\t// mine\n\t"big": 12345678901234567890, "small": 1.0,\n\t/* servers: */ "servers": {\n\t\t"other": { "command": "x" }, // keep\n\t},\n}\n',
      ['// mine', '"big": 12345678901234567890, "small": 1.0,', '/* servers: */', '// keep'],
    ],
    ['only a comment inside', '{\n  "servers": { /* none yet */ }\n}\n', ['/* none yet */']],
    ['all on one line', '{"servers":{"a":{}},"z":[1,{"servers":"no"}]}', []],
  ])('with %s keeps everything else', (_what, before, kept) => {
    const after = merge(before);
    const old = (before === '' ? {} : read(before)) as { servers?: object };
    expect(read(after)).toEqual({ ...old, servers: { ...old.servers, stoa: entry } });
    for (const part of kept) expect(after).toContain(part);
    // A second time there is nothing left to do.
    expect(merge(after)).toBe(after);
  });

  it('has an old entry replaced, and braces in texts and comments unchanged', () => {
    const before =
      '{ "a": "} // \\" {", /* } */ "servers": {"stoa": {"command": "old" /* ours */}, "b": {}} }';
    const after = merge(before);
    expect(after).toContain('/* } */');
    expect(read(after)).toEqual({
      a: '} // " {',
      servers: { stoa: entry, b: {} },
    });
  });

  it.each([
    '{',
    '{"a" 1}',
    '[]',
    '"text"',
    '{"servers": []}',
    '{"servers": 1}',
    '{} x',
    "{'a': 1}",
    '{"a": undefined}',
    '{"a": 01}',
    '{,}',
    '/* never ends',
  ])('that is %j is refused, and was not changed', (text) => {
    expect(() => merge(text)).toThrow(/mcp\.json is not JSON .* was not changed/);
  });
});

describe('a TOML file', () => {
  const table = '[mcp_servers.stoa]\ncommand = "node"\nargs = ["main.js","mcp"]\n';

  it('gets the table at its end, and keeps tables beside and below it', () => {
    expect(toml('model = "x" # mine\n')).toBe(`model = "x" # mine\n\n${table}`);
    const below = `[mcp_servers.stoa]\ncommand = "old"\n\n[mcp_servers.stoa.env]\nA = "1"\n`;
    expect(toml(below)).toBe(`${table}\n[mcp_servers.stoa.env]\nA = "1"\n`);
    expect(toml(toml(below))).toBe(toml(below));
  });

  it.each([
    'mcp_servers = { stoa = { command = "x" } }\n',
    'mcp_servers.other.command = "x"\n',
    '[mcp_servers]\nstoa = { command = "x" }\n',
    '[mcp_servers]\n"stoa".command = "x"\n',
  ])('that says it inside a line, %j, is refused, because a second table would break it', (text) => {
    expect(() => toml(text)).toThrow(/config\.toml is not TOML with separate tables/);
  });

  it('with other servers inside a line of their table is added to', () => {
    expect(toml('[mcp_servers]\nother = { command = "x" }\n')).toBe(
      `[mcp_servers]\nother = { command = "x" }\n\n${table}`,
    );
  });
});
