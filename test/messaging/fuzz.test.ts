import { afterAll, beforeAll, expect, it } from 'vitest';
import type { TestServer } from '../servers/child.js';
import { start as startRedis } from '../servers/redis.js';
import { noteServer, sharedPostgres } from '../servers/shared.js';
import { fuzzOnce, tearOnce } from './fuzz.js';
import { type Agent, MessagingServer, roomy } from './kit.js';

/** On each backend; `npm run fuzz` sets more. */
const seconds = Number(process.env['FUZZ_SECONDS'] ?? 3);
/** Hostile and ordinary load take turns of this length, so that both meet the same machine. */
const turnMs = 500;
const clients = 8;
const requestsMin = seconds * 10;

let redis: TestServer;

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
});
afterAll(() => redis.stop());

const backends = [
  ['the directory home', () => MessagingServer.open()],
  [
    'PostgreSQL and Redis',
    async () =>
      MessagingServer.open({
        limits: roomy,
        postgres: (await sharedPostgres()).url,
        redis: redis.url,
        secretKeys: '00'.repeat(32),
        onError: () => undefined,
      }),
  ],
] as const;

it.each(backends)(
  '%s answers hostile requests without a crash, without a 5xx, and without keeping others waiting',
  async (_name, open) => {
    const server = await open();
    try {
      const [agent, other] = [await server.agent('Fuzz'), await server.agent('Other')];
      const failures: string[] = [];
      let requests = 0;
      const attack = async () => {
        const { status, request } =
          requests % 20 === 0 ? await tearOnce(server, agent) : await fuzzOnce(server, agent);
        requests += 1;
        if (status >= 500) failures.push(`${status}: ${request}`);
      };
      const slowestMs = { ordinary: 0, hostile: 0 };
      const untilMs = performance.now() + seconds * 1_000;
      // On a busy machine it continues until it has sent enough requests.
      const isDone = () => failures.length > 0 || (performance.now() >= untilMs && requests >= requestsMin);
      while (!isDone()) {
        slowestMs.ordinary = Math.max(slowestMs.ordinary, await slowestBeside(() => ordinary(agent), other));
        slowestMs.hostile = Math.max(slowestMs.hostile, await slowestBeside(attack, other));
      }
      expect(failures).toEqual([]);
      // A request that holds up the others shows as a multiple of what the same load of ordinary ones costs
      // them.
      expect(slowestMs.hostile).toBeLessThan(10 * Math.max(slowestMs.ordinary, 100));
      expect((await server.ask('GET', '/health')).status).toBe(200);
    } finally {
      await server.close();
    }
  },
  60_000 + seconds * 4_000,
);

/** The longest allowed messages, so that the comparison uses a realistic load. */
async function ordinary(agent: Agent): Promise<void> {
  await agent.post('global', 'word '.repeat(800));
  await agent.ask('GET', '/room/global?limit=200&verify=1');
}

/**
 * For one turn, as many clients as there are do `work` while another one posts: the longest that it
 * waited, in processor time of this process, server and clients together. By the clock, neighbours
 * on the machine would slow it down too.
 */
async function slowestBeside(work: () => Promise<void>, other: Agent): Promise<number> {
  const untilMs = performance.now() + turnMs;
  let slowestMs = 0;
  const working = Array.from({ length: clients }, async () => {
    while (performance.now() < untilMs) await work();
  });
  const posting = (async () => {
    while (performance.now() < untilMs) {
      const started = process.cpuUsage();
      await other.post('global', 'still here');
      const { user, system } = process.cpuUsage(started);
      slowestMs = Math.max(slowestMs, (user + system) / 1_000);
    }
  })();
  await Promise.all([...working, posting]);
  return slowestMs;
}
