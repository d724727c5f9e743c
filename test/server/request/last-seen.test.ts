import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { StoaError } from '../../../src/core/errors.js';
import { eventually, until } from '../../until.js';
import { Running } from '../running.js';

let running: Running;
let faults: string[];
beforeEach(async () => {
  faults = [];
  running = await Running.start({
    limits: { lastSeenSeconds: 3_600, agentPresenceRenewSeconds: 3_600 },
    onError: (_error, about) => faults.push(about),
  });
});
afterEach(() => running.stop());

test.each(['recordUserCall', 'recordAgentCall'] as const)(
  'the next call tries again after a failed %s, and later calls do not',
  async (verb) => {
    const record = vi.spyOn(running.stoa.registry, verb);
    record.mockRejectedValueOnce(new StoaError('overloaded', 'The store is busy.'));
    const call = () =>
      running.ask('GET', '/v1/agents', { as: running.alice, headers: { 'stoa-agent': 'heron' } });
    await call();
    await until(() => faults.length === 1);
    for (let times = 0; times < 3; times += 1) await call();
    expect(record).toHaveBeenCalledTimes(2);
  },
);

test('a user is recorded again in time also when the clock is set back', async () => {
  await running.stop();
  running = await Running.start({ limits: { lastSeenSeconds: 0.2 } });
  const record = vi.spyOn(running.stoa.registry, 'recordUserCall');
  await running.ask('GET', '/v1/agents', { as: running.alice });
  const realNow = Date.now;
  const setBack = vi.spyOn(Date, 'now').mockImplementation(() => realNow() - 3_600_000);
  try {
    await eventually(async () => {
      await running.ask('GET', '/v1/agents', { as: running.alice });
      expect(record.mock.calls.length).toBeGreaterThan(1);
    });
  } finally {
    setBack.mockRestore();
  }
});
