/** Opening and closing everything, when a part of it fails. */
import { afterEach, expect, test, vi } from 'vitest';
import { query } from '../src/homes/postgres/database/connection.js';
import { openPostgres } from '../src/homes/postgres/database/pool.js';
import { StoaError, openStoa, operatorCaller } from '../src/index.js';
import { emptyPostgres, sharedRedis } from './servers/shared.js';
import { eventually } from './until.js';

afterEach(() => vi.restoreAllMocks());

test('a database that fails to close does not keep other parts open', async () => {
  const stoa = await openStoa({ data: '', engine: 'memory' });
  vi.spyOn(stoa.data, 'close').mockRejectedValue(
    new StoaError('backend_unavailable', 'The database is gone.'),
  );
  const workspaces = vi.spyOn(stoa.workspaces, 'close');
  await expect(stoa.close()).rejects.toMatchObject({ code: 'backend_unavailable' });
  expect(workspaces).toHaveBeenCalledOnce();
  await expect(stoa.registry.createAgent(operatorCaller('ada'), { name: 'late' })).rejects.toMatchObject({
    code: 'closed',
  });
});

test('a Stoa that is closed twice closes each part once', async () => {
  let nowMs = Date.now();
  const faults: string[] = [];
  const stoa = await openStoa({
    data: '',
    engine: 'memory',
    clock: () => nowMs,
    onError: (error, about) => faults.push(`${about}: ${String(error)}`),
  });
  await stoa.messaging.port.takeRate({ endpoint: 'post', scope: 'user', subject: 'ada' }, 10, 60);
  await stoa.close();
  // By now the window is over, and its row would be removed.
  nowMs += 3_600_000;
  await stoa.close();
  expect(faults).toEqual([]);
});

test('if messaging cannot be opened, no timer stays', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  try {
    const opening = openStoa({
      data: '',
      engine: 'memory',
      messagingSettings: { adminAgent: 'not an id' },
    });
    await expect(opening).rejects.toMatchObject({ code: 'invalid_config' });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test('if one part cannot be opened, the parts opened before are closed', async () => {
  const { url } = await emptyPostgres();
  const opening = openStoa({
    postgres: url,
    redis: (await sharedRedis()).url,
    secretKeys: '00'.repeat(32),
    datastore: 'couchdb://127.0.0.1:1',
    limits: { backendAttemptsMax: 1 },
  });
  await expect(opening).rejects.toMatchObject({ code: 'backend_unavailable' });
  const sql = await openPostgres(new URL(url));
  await eventually(async () =>
    expect(
      await query(
        sql,
        'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      ),
    ).toEqual([]),
  );
  await sql.end();
});
