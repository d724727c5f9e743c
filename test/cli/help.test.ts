/** The help of every command. */
import { describe, expect, test } from 'vitest';
import { createProgram } from '../../src/cli/program.js';
import { useProgram } from './program.js';

type Command = ReturnType<typeof createProgram>;

const { stoa } = useProgram();

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

  test('of a command that other commands are below shows how it is called itself', () => {
    expect(texts.get('stoa lock')).toContain('Usage: stoa lock [options] <name> [command...]\n');
    expect(texts.get('stoa backup')).toContain('Usage: stoa backup [options] [directory]\n');
    expect(texts.get('stoa agents')).toContain('Usage: stoa agents [options] [command]\n');
  });

  test('of a flag for a status lists the statuses', () => {
    expect(texts.get('stoa tasks ls')?.replaceAll(/\s+/g, ' ')).toContain(
      'pending, running, input_required, completed, failed, cancelled',
    );
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
