/** `stoa changes` and `stoa watch changes`. */
import { spawn } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { builtProgram } from '../../servers/shared.js';
import { useServedProgram } from '../served.js';

const { data, json } = useServedProgram();

describe('changes', () => {
  test('are listed, and go on from a position', async () => {
    const before = await json<{ position: string }>('changes', '--limit', '1000');
    await json('agents', 'create', 'news', '--user', 'chg');
    const after = await json<{ items: { kind: string; user: string }[] }>(
      'changes',
      '--since',
      before.position,
      '--topics',
      'agent',
    );
    expect(after.items).toMatchObject([{ kind: 'agent.created', user: 'chg' }]);
  });

  test('are watched, one JSON a line, until a signal', async () => {
    const child = spawn(
      process.execPath,
      [await builtProgram(), 'watch', 'changes', '--json', '--data', data()],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    let talk = '';
    child.stderr.on('data', (chunk: Buffer) => (talk += chunk.toString()));
    await expect.poll(() => talk).toContain('Live at');
    let lines = '';
    child.stdout.on('data', (chunk: Buffer) => (lines += chunk.toString()));
    // The stream opens a moment after the program says so; each agent is another chance to see it.
    await expect
      .poll(
        async () => {
          await json('agents', 'create', `followed-${Date.now()}`, '--user', `fol-${Date.now()}`);
          return lines.split('\n').filter((line) => line !== '').length;
        },
        { timeout: 30_000 },
      )
      .toBeGreaterThan(0);
    expect(JSON.parse(lines.split('\n')[0] ?? '')).toMatchObject({ domain: 'registry' });
    child.kill('SIGINT');
    expect(await ended).toBe(0);
  });
});
