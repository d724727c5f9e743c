/** The server that `stoa mcp` starts ends when nobody has used it for a while. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../until.js';
import { useStdio } from './stdio.js';

const stdio = useStdio();
const idleStopSeconds = 2;

test(
  'a server that stoa mcp started stops without a client, not with one',
  { timeout: 120_000 },
  async () => {
    const data = await stdio.data();
    const config = join(data, 'settings.json');
    await writeFile(config, JSON.stringify({ limits: { idleStopSeconds } }));
    const client = await stdio.connect(data, ['--config', config, '--agent', 'scout']);
    await client.ok('remember', { key: 'k', value: 1 });
    const owner = await stdio.ownerOf(data);
    const silentSince = performance.now();
    await until(() => performance.now() - silentSince > 2_000 * idleStopSeconds);
    expect(await stdio.ownerOf(data)).toBe(owner);

    await client.close();
    await until(() => !existsSync(join(data, 'stoa.lock')));
    expect(await readFile(join(data, 'stoa.log'), 'utf8')).toContain(`idle for ${idleStopSeconds} seconds`);

    const next = await stdio.connect(data, ['--config', config]);
    expect((await next.ok('recall', { key: 'k' })).items[0].value).toBe(1);
    await next.close();
  },
);
