/**
 * Faults of PostgreSQL and Redis under load: accepted means stored, refused means not stored, and a key
 * settles what is unknown.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { StoaError } from '../../../src/core/errors.js';
import { query } from '../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../src/homes/postgres/database/pool.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { globalRoomId } from '../../../src/messaging/identities/uuid.js';
import { roomy } from '../../messaging/kit.js';
import { type Gate, startGate } from '../../servers/gate.js';
import { type PostgresServer, start as startPostgres } from '../../servers/postgres.js';
import { start as startRedis } from '../../servers/redis.js';
import type { HaltingServer } from '../../servers/child.js';
import { noteServer, sharedKeys } from '../../servers/shared.js';
import { publicRoom } from '../../messaging/public-room.js';
import { eventually, until } from '../../until.js';

const ada = operatorCaller('ada', 'writer');
const writersCount = 4;
/** What a client must take for unknown. */
const unknown = 'backend_unavailable';

let postgres: PostgresServer;
let redis: HaltingServer;
let [postgresGate, redisGate]: Gate[] = [];
let stoa: Stoa;
/** How long each message to the databases takes. */
let delayMs = 0;
const hold = (): Promise<void> | undefined => (delayMs === 0 ? undefined : sleep(delayMs));

beforeAll(async () => {
  [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  await Promise.all([postgres, redis].map(({ describe: text }) => noteServer(text)));
});
afterAll(async () => {
  await redis?.stop();
  await postgres?.stop();
});
beforeEach(async () => {
  [postgresGate, redisGate] = [await startGate(postgres.url, { hold }), await startGate(redis.url, { hold })];
  stoa = await openStoa({
    postgres: postgresGate.url,
    redis: redisGate.url,
    secretKeys: sharedKeys,
    limits: { ...roomy, statementSecondsMax: 2, backendRequestSecondsMax: 2 },
    onError: () => undefined,
  });
});
afterEach(async () => {
  postgresGate?.speak();
  redisGate?.speak();
  await stoa?.close();
  await postgresGate?.close();
  await redisGate?.close();
});

type Outcome = 'accepted' | 'unknown' | 'refused';

interface Load {
  /** What became of each write, by its name. */
  readonly outcomes: ReadonlyMap<string, Outcome>;
  /** The codes and the sentences of refusals. */
  readonly codes: ReadonlySet<string>;
  readonly sentences: ReadonlySet<string>;
}

/** Writes all the while; ends when writes are accepted again after the fault. */
async function during(
  fault: (load: Load) => Promise<unknown>,
  write: (name: string) => Promise<unknown>,
): Promise<Load> {
  const outcomes = new Map<string, Outcome>();
  const codes = new Set<string>();
  const sentences = new Set<string>();
  const ended = new AbortController();
  const attempt = async (name: string): Promise<Outcome> => {
    try {
      await write(name);
      return 'accepted';
    } catch (error) {
      if (!(error instanceof StoaError)) throw error;
      codes.add(error.code);
      sentences.add(error.message);
      return error.code === unknown ? 'unknown' : 'refused';
    }
  };
  const writers = Array.from({ length: writersCount }, async () => {
    while (!ended.signal.aborted) {
      const name = randomUUID();
      outcomes.set(name, await attempt(name));
      await sleep(10);
    }
  });
  const accepted = (): number => [...outcomes.values()].filter((outcome) => outcome === 'accepted').length;
  await eventually(() => expect(accepted()).toBeGreaterThan(10), 100);
  await fault({ outcomes, codes, sentences });
  await eventually(async () => {
    const name = randomUUID();
    const outcome = await attempt(name);
    outcomes.set(name, outcome);
    expect(outcome).toBe('accepted');
  }, 100);
  ended.abort();
  await Promise.all(writers);
  return { outcomes, codes, sentences };
}

function increment(name: string): Promise<{ value: number }> {
  return stoa.data.increment(ada, 'n', name, 1, {
    idempotency: { scope: 'ada', key: name, fingerprint: 'f', seconds: 600 },
  });
}

async function admin(...statements: readonly string[]): Promise<void> {
  const sql = await openPostgres(new URL(postgres.url), { connectionsMax: 1 });
  try {
    for (const statement of statements) await query(sql, statement);
  } finally {
    await sql.end();
  }
}

const cut =
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user';

function readOnly(isOn: boolean): Promise<void> {
  return admin(
    'SET default_transaction_read_only = off',
    `ALTER ROLE stoa SET default_transaction_read_only = ${isOn ? 'on' : 'off'}`,
    cut,
  );
}

function post(body: string): Promise<unknown> {
  return stoa.messaging.rooms.post(ada, { room: 'global' }, () => ({ body, pid: '' }), null);
}

/** How often each text stands in the room. */
async function said(): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  let afterMs = 0;
  for (;;) {
    const { items } = await stoa.messaging.port.messages(publicRoom(globalRoomId), { afterMs, limit: 100 });
    for (const { body, tsMs } of items) {
      counts.set(body, (counts.get(body) ?? 0) + 1);
      afterMs = tsMs;
    }
    if (items.length < 100) return counts;
  }
}

async function setMemory(max: string): Promise<void> {
  const client = new Redis(redis.url);
  await client.config('SET', 'maxmemory', max);
  client.disconnect();
}

describe('PostgreSQL', () => {
  const faults: Record<string, (load: Load) => Promise<unknown>> = {
    'is restarted': async () => {
      await postgres.halt();
      await sleep(1_000);
      await postgres.resume();
    },
    'is frozen until writes fail': async ({ codes }) => {
      postgresGate?.silence();
      await eventually(() => expect([...codes]).toContain(unknown), 100);
      postgresGate?.speak();
    },
    'loses all connections, several times': async () => {
      for (let count = 0; count < 5; count += 1) {
        await admin(cut);
        await sleep(200);
      }
    },
    'is switched to read-only for a while': async () => {
      await readOnly(true);
      await eventually(async () => expect(await stoa.data.get(ada, 'n', 'nothing')).toBeUndefined(), 100);
      await sleep(1_000);
      await readOnly(false);
    },
  };

  it.each(Object.keys(faults))('accepts no write that is lost when it %s', async (name) => {
    const { outcomes, codes } = await during(async (load) => faults[name]?.(load), increment);
    expect([...codes].filter((code) => code !== unknown)).toEqual([]);
    for (const [key, outcome] of outcomes) {
      const stored = await stoa.data.get(ada, 'n', key);
      if (outcome === 'accepted') expect(stored, key).toBe(1);
      // Nobody knows yet; a repeat under the key does.
      else expect(await increment(key)).toMatchObject({ value: 1 });
    }
    expect((await stoa.data.listKeys(ada, 'n', { limit: 1 })).items).toHaveLength(1);
  });
});

it('an outage of PostgreSQL is reported once by what runs all the time', async () => {
  const abouts: string[] = [];
  const gate = await startGate(postgres.url);
  const other = await openStoa({
    postgres: gate.url,
    redis: redis.url,
    secretKeys: sharedKeys,
    onError: (_error, about) => void abouts.push(about),
  });
  const about = 'listening for removed tokens';
  try {
    await gate.close();
    await until(() => abouts.includes(about));
    const [fromMs, beatsMs] = [performance.now(), 1_500];
    await until(() => performance.now() > fromMs + beatsMs);
    expect(abouts.filter((each) => each === about)).toHaveLength(1);
  } finally {
    await gate.open();
    await other.close();
    await gate.close();
  }
});

/** What a caller reads; nothing of the driver's words. */
const redisSentences = [
  'Redis is not reachable.',
  'Redis did not answer within 5 s. The outcome of the request is unknown.',
  'The connection to Redis was lost. The outcome of the request is unknown.',
  'Redis is starting or changing its nodes.',
  'Redis is full: its maxmemory is used up. Nothing was stored.',
];

describe('Redis', () => {
  const faults: Record<string, { act: (load: Load) => Promise<unknown>; code: string }> = {
    'is restarted': {
      act: async () => {
        await redis.halt();
        await sleep(1_000);
        await redis.resume();
      },
      code: unknown,
    },
    'is frozen': {
      act: async ({ codes }) => {
        redisGate?.silence();
        await eventually(() => expect([...codes]).toContain(unknown), 100);
        redisGate?.speak();
      },
      code: unknown,
    },
    'is full': {
      act: async () => {
        await setMemory('1mb');
        await sleep(500);
        await setMemory('0');
      },
      code: 'disk_full',
    },
  };

  it.each(Object.keys(faults))(
    'accepts no message that is lost when it %s, and data stays available',
    async (name) => {
      const fault = faults[name];
      let kept = 0;
      const { outcomes, codes, sentences } = await during(async (load) => {
        const acting = fault?.act(load);
        await sleep(300);
        await stoa.data.set(ada, 'n', 'meanwhile', (kept += 1));
        await acting;
      }, post);
      expect(await stoa.data.get(ada, 'n', 'meanwhile')).toBe(1);
      expect([...codes]).toContain(fault?.code);
      // Redis can also be late on a busy machine.
      expect([...codes].filter((code) => code !== fault?.code && code !== unknown)).toEqual([]);
      // So can PostgreSQL.
      for (const sentence of sentences)
        if (!sentence.startsWith('PostgreSQL ended a statement')) expect(redisSentences).toContain(sentence);
      const stands = await said();
      for (const [body, outcome] of outcomes) {
        if (outcome === 'accepted') expect(stands.get(body), body).toBe(1);
        if (outcome === 'refused') expect(stands.get(body), body).toBeUndefined();
        if (outcome === 'unknown') expect(stands.get(body) ?? 0).toBeLessThanOrEqual(1);
      }
    },
  );
});

const accepted = ({ outcomes }: Load): string[] =>
  [...outcomes].flatMap(([name, outcome]) => (outcome === 'accepted' ? [name] : []));

const slowly = async ({ outcomes }: Load): Promise<void> => {
  const before = outcomes.size;
  delayMs = 40;
  await until(() => outcomes.size > before + 30);
  delayMs = 0;
};

describe('a slow network to both', () => {
  afterEach(() => {
    delayMs = 0;
  });

  it('delays writes and posts, and those that are accepted happen once', async () => {
    for (const key of accepted(await during(slowly, increment)))
      expect(await stoa.data.get(ada, 'n', key), key).toBe(1);
    const bodies = accepted(await during(slowly, post));
    const stands = await said();
    for (const body of bodies) expect(stands.get(body), body).toBe(1);
  });
});
