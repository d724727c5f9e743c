import { expect, test, vi } from 'vitest';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { DatabaseClock } from '../../../../src/homes/postgres/database/database-clock.js';
import { emptyPostgres } from '../../../servers/shared.js';

test('a step of the clock of the server changes nothing, before and after a refresh', async () => {
  const sql = await openPostgres(new URL((await emptyPostgres()).url), { connectionsMax: 1 });
  const [realNow, stepped] = [Date.now, vi.spyOn(Date, 'now')];
  const minuteMs = 60_000;
  try {
    const clock = new DatabaseClock(sql);
    for (const stepMs of [0, 30 * minuteMs, -minuteMs * 30]) {
      stepped.mockImplementation(() => realNow() + stepMs);
      expect(Math.abs(clock.nowMs() - realNow())).toBeLessThan(10 * minuteMs);
      await clock.refresh();
      expect(Math.abs(clock.nowMs() - realNow())).toBeLessThan(10 * minuteMs);
    }
  } finally {
    stepped.mockRestore();
    await closePostgres(sql, 1);
  }
});

test('a question that waits for a connection does not shift the clock', async () => {
  const sql = await openPostgres(new URL((await emptyPostgres()).url), { connectionsMax: 1 });
  try {
    const clock = new DatabaseClock(sql);
    await clock.refresh();
    const before = clock.nowMs() - Date.now();
    await Promise.all([query(sql, 'SELECT pg_sleep(1)'), clock.refresh()]);
    expect(Math.abs(clock.nowMs() - Date.now() - before)).toBeLessThan(500);
  } finally {
    await closePostgres(sql, 1);
  }
});
