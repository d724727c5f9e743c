/** `stoa completion`. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { useProgram } from '../../program.js';

const { stoa } = useProgram();

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
