import { beforeAll, describe, expect, test } from 'vitest';
import { useProgram } from '../program.js';

const { stoa, up, path } = useProgram();
let common: string[];

beforeAll(async () => {
  await up(path('data'));
  common = ['--data', path('data'), '--user', 'ada', '--json'];
});

describe('stoa lock', { timeout: 60_000 }, () => {
  test('holds a lock that other agents see, until unlock', async () => {
    const made = await stoa(['lock', './src/app.ts', '--ttl', '10m', '--agent', 'otter', ...common]);
    expect(JSON.parse(made.stdout)).toMatchObject({ name: 'src/app.ts', holder: 'otter' });
    const refused = await stoa(['lock', 'src/app.ts', '--agent', 'heron', ...common]);
    expect(refused).toMatchObject({ status: 5 });
    expect(refused.stderr).toContain('is locked by otter');
    const listed = await stoa(['lock', 'ls', ...common]);
    expect(JSON.parse(listed.stdout).items).toMatchObject([{ name: 'src/app.ts', holder: 'otter' }]);
    expect(await stoa(['unlock', 'src/app.ts', '--agent', 'heron', ...common])).toMatchObject({ status: 5 });
    const released = await stoa(['unlock', 'src/app.ts', '--agent', 'otter', ...common]);
    expect(JSON.parse(released.stdout)).toEqual({ released: true });
  });

  test('runs a command while holding the lock, and exits with its status', async () => {
    const script = 'test -n "$STOA_LOCK_FENCE" && echo "$STOA_LOCK" && exit 7';
    const ran = await stoa(['lock', 'deploy', ...common, '--', 'sh', '-c', script]);
    expect(ran).toMatchObject({ status: 7, stdout: 'deploy\n' });
    expect(JSON.parse((await stoa(['lock', 'ls', ...common])).stdout).items).toEqual([]);
    const first = stoa(['lock', 'deploy', ...common, '--', 'sleep', '3']);
    const second = stoa(['lock', 'deploy', ...common, '--', 'sleep', '3']);
    expect([(await first).status, (await second).status].toSorted()).toEqual([0, 5]);
    const missing = await stoa(['lock', 'deploy', ...common, '--', 'no-such-command']);
    expect(missing).toMatchObject({ status: 2 });
    const after = await stoa(['lock', 'deploy', '--wait', '5s', ...common, '--', 'true']);
    expect(after).toMatchObject({ status: 0 });
  });
});
