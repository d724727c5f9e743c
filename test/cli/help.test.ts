/** Help, completion and the printed configuration. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { createProgram } from '../../src/cli/program.js';
import { useProgram } from './program.js';

type Command = ReturnType<typeof createProgram>;

const { stoa } = useProgram();

describe('the configuration', () => {
  test('is printed with the source of each value', async () => {
    const ended = await stoa(['config', '--host', '127.0.0.2', '--json'], {
      environment: { STOA_PORT: '9000', STOA_LIMIT_LEASE_SECONDS: '5' },
    });
    expect(ended.json()).toMatchObject({
      host: { value: '127.0.0.2', origin: '--host' },
      port: { value: 9000, origin: 'STOA_PORT' },
      engine: { value: null, origin: 'default' },
      'limits.leaseSeconds': { value: 5, origin: 'STOA_LIMIT_LEASE_SECONDS' },
    });
  });
});

describe('help', () => {
  const texts = new Map(helpTexts().map(({ words, help }) => [words, help]));

  test('is printed by the program', async () => {
    const { stdout, status } = await stoa(['agents', 'create', '--help']);
    expect([status, stdout]).toEqual([0, texts.get('stoa agents create')]);
  });

  test.each([
    'stoa',
    'stoa up',
    'stoa agents',
    'stoa agents create',
    'stoa agents sessions open',
    'stoa users set',
    'stoa token create',
    'stoa changes',
    'stoa backup',
    'stoa restore',
    'stoa inspect',
    'stoa config',
    'stoa status',
  ])('of "%s" has examples', (words) => {
    expect(texts.get(words)).toContain('Examples:');
    expect(texts.get(words)).toContain(`$ ${words}`);
  });

  describe.each(helpTexts())('of "$words"', ({ help }) => {
    test('fits 80 columns and ends with one newline', () => {
      expect(help.split('\n').filter((line) => line.length > 80)).toEqual([]);
      expect(help).toMatch(/[^\n]\n$/);
    });

    test('gives defaults and variables in one form', () => {
      const text = help.replaceAll(/\s+/g, ' ');
      const mentions = text.match(/\bthe default\b|\bdefault[ \w]*:|\benv:/g) ?? [];
      const details = text.match(/(?:\(|; )(?:default|env): /g) ?? [];
      expect(mentions).toHaveLength(details.length);
      expect(text).not.toMatch(/(?:default|env): [^()]*\) \((?:default|env):/);
    });
  });

  test('of a command shows no option of the command above it', () => {
    expect(texts.get('stoa backup')).toContain('--with-key');
    expect(texts.get('stoa backup prune')).not.toContain('--with-key');
    expect(texts.get('stoa backup prune')).toContain('--json');
  });

  test('of "connect" names its own data directory', () => {
    expect(texts.get('stoa connect')).toContain('Data directory (default: ~/.stoa; env: STOA_DATA)');
    expect(texts.get('stoa status')).toContain('Data directory (default: ./data; env: STOA_DATA)');
  });

  test('of "up" names the variable of a setting', () => {
    expect(texts.get('stoa up')?.replaceAll(/\s+/g, ' ')).toContain('default: 7862; env: STOA_PORT)');
  });

  test('names the variable of the data directory', () => {
    expect(texts.get('stoa')).toMatch(/env:\s+STOA_DATA/);
  });

  test('names the version', async () => {
    expect((await stoa(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe('completion', () => {
  let script: string;
  beforeAll(async () => {
    script = (await stoa(['completion', 'bash'])).stdout;
  });

  test.each([
    ['stoa ', ['agents', 'completion', 'tasks', '--json']],
    ['stoa da', ['data']],
    ['stoa data ', ['ls', 'set', '--user']],
    ['stoa data --user ada s', ['set', 'set-many']],
    ['stoa data ls --v', ['--values']],
    ['stoa agents sessions o', ['open']],
  ])('of %j in bash', async (typed, wanted) => {
    const words = typed.split(' ');
    const asked = `${script}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _stoa; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', asked]);
    const offered = stdout.trim().split('\n');
    expect(offered).toEqual(expect.arrayContaining(wanted));
    expect(offered.filter((word) => !word.startsWith(words.at(-1) ?? ''))).toEqual([]);
  });

  test('has scripts for zsh and fish, and refuses other shells', async () => {
    expect((await stoa(['completion', 'zsh'])).stdout).toMatch(/^#compdef stoa\n/);
    expect((await stoa(['completion', 'fish'])).stdout).toContain("complete -c stoa -a '(__stoa_words)'");
    expect((await stoa(['completion', 'tcsh'])).status).toBe(2);
  });
});

/** The help of every command, as in a terminal of 80 columns. */
function helpTexts(): { words: string; help: string }[] {
  const helpOf = (command: Command, before: string): { words: string; help: string }[] => {
    const words = `${before}${command.name()}`;
    let help = '';
    command.configureOutput({ writeOut: (text) => (help += text), getOutHelpWidth: () => 80 });
    command.outputHelp();
    return [{ words, help }, ...command.commands.flatMap((each) => helpOf(each, `${words} `))];
  };
  return helpOf(
    createProgram(() => Promise.resolve(), '0.0.0'),
    '',
  );
}
