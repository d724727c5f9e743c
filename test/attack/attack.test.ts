/** Whatever the callers send, the server answers, keeps answering others, and keeps what it acknowledged. */
import { describe, expect, test } from 'vitest';
import { useProgram } from '../cli/program.js';
import { attack, lostAcknowledgements } from './attack.js';

/** On each engine; `npm run attack` sends more. */
const requests = Number(process.env['ATTACK_REQUESTS'] ?? 4_000);
const seed = Number(process.env['ATTACK_SEED'] ?? 1);
const noLimit = '1000000000';

/** No request ends at a rate limit; what can expire does so while the attack goes on. */
const environment = {
  ...Object.fromEntries(
    [
      'ADDRESS_REQUESTS_PER_MINUTE_MAX',
      'REGISTRATIONS_PER_HOUR_MAX',
      'PROFILE_READS_PER_MINUTE_MAX',
      'PROFILE_CHANGES_PER_HOUR_MAX',
      'CHANNEL_READS_PER_MINUTE_MAX',
      'SEARCHES_PER_MINUTE_MAX',
      'ROOMS_CREATED_PER_HOUR_MAX',
      'ROOM_READS_PER_MINUTE_MAX',
      'POSTS_PER_MINUTE_MAX',
      'DELETES_PER_MINUTE_MAX',
      'DIRECT_SENDS_PER_MINUTE_MAX',
      'DIRECT_READS_PER_MINUTE_MAX',
      'MESSAGE_BYTES_PER_MINUTE_MAX',
      'VIOLATIONS_PER_HOUR_MAX',
      'AGENTS_PER_USER_MAX',
      'TOKENS_PER_USER_MAX',
    ].map((name) => [`STOA_LIMIT_${name}`, noLimit]),
  ),
  STOA_LIMIT_MESSAGE_RETENTION_SECONDS: '3',
  STOA_LIMIT_DIRECT_RETENTION_SECONDS: '3',
  STOA_LIMIT_LEASE_SECONDS: '1',
  STOA_LIMIT_LEASE_GRACE_SECONDS: '1',
  STOA_LIMIT_TASK_LEASE_SECONDS: '1',
  STOA_LIMIT_WORK_SESSION_IDLE_SECONDS: '2',
  STOA_LIMIT_IDEMPOTENCY_SECONDS: '2',
  STOA_LIMIT_CLAIM_WAIT_SECONDS_MAX: '1',
  STOA_LIMIT_LONG_POLL_SECONDS_MAX: '1',
};

describe.each(['lmdb', 'rocksdb'] as const)('on %s', (engine) => {
  const program = useProgram();
  test('mutated requests cause no fault, no stall, and no loss of what was acknowledged', async () => {
    const data = program.path('data');
    const server = await program.up(data, ['--engine', engine], environment);
    const report = await attack({
      url: server.url,
      operator: server.token,
      pid: server.pid,
      requests,
      seed,
    }).catch((error: unknown) => {
      throw new Error(`The attack ended early: ${String(error)}\n${server.stderr().slice(-3_000)}`, {
        cause: error,
      });
    });
    const { faults, stalls, statuses, longestMs, acknowledged } = report;
    if (process.env['ATTACK_REQUESTS'] !== undefined)
      console.log(engine, {
        requests: report.requests,
        statuses,
        longestMs,
        streams: report.streams,
        acknowledged: acknowledged.size,
        stalls: stalls.length,
      });
    await server.end('SIGKILL');
    const again = await program.up(data, [], environment);
    const lost = await lostAcknowledgements(again.url, report);
    await again.end('SIGTERM');
    expect({ faults, stalls, lost }).toEqual({ faults: [], stalls: [], lost: [] });
    expect(report.streams).toBe(6);
    // Enough of them were right to get behind the checks.
    expect(statuses[200]).toBeGreaterThan(report.requests / 20);
  }, 3_600_000);
});
