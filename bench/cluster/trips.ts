/** How often the hot operations wait for PostgreSQL and Redis, counted between Stoa and the servers. */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { operatorCaller } from '../../src/core/caller.js';
import { aicqSignedText } from '../../src/identity/signatures.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import { Trips, afterThePost, countingProxy } from '../../test/homes/postgres/counting-proxy.js';
import type { Row } from '../frame.js';
import type { Place } from './cluster.js';

const calls = 60;
/** Each connection of the pool prepares a statement when it first sends it, which takes a wait more. */
const callsBefore = 30;
/** Longer than the server works for the feed after a write. */
const pauseMs = 50;

export async function tripRows(place: Place): Promise<Row[]> {
  const waits = new Trips();
  const way = { uncounted: afterThePost, delayMs: 5 };
  const [postgres, redis] = await Promise.all([
    countingProxy(place.postgres, [waits], way),
    countingProxy(place.redis, [waits], way),
  ]);
  const stoa = await openStoa({
    ...place,
    postgres: postgres.url,
    redis: redis.url,
    limits: {
      addressRequestsPerMinuteMax: 1_000_000,
      postsPerMinuteMax: 1_000_000,
      messageBytesPerMinuteMax: 1_000_000_000,
    },
  });
  const app = createApp(stoa);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const waitsOf = async (act: () => Promise<unknown>): Promise<number> => {
    const counted: number[] = [];
    for (let call = -callsBefore; call < calls; call += 1) {
      await sleep(pauseMs);
      waits.count = 0;
      await act();
      if (call >= 0) counted.push(waits.count);
    }
    return mostFrequent(counted);
  };
  try {
    const rows: Row[] = [];
    for (const [what, act, most] of await operations(stoa, url))
      rows.push({
        what: `waits for PostgreSQL and Redis of ${what}`,
        ours: await waitsOf(act),
        reference: 1,
        unit: 'waits',
        ...(most !== undefined && { target: { atMost: most } }),
      });
    return rows;
  } finally {
    await stopApp(app, 1);
    await stoa.close();
    postgres.close();
    redis.close();
  }
}

/**
 * Beside some of the calls the server works by itself, such as filing words and sweeping, whose waits are counted too. A
 * median follows them when they come beside half of the calls, as on a busy machine. Of equally frequent numbers, the
 * greatest.
 */
function mostFrequent(numbers: readonly number[]): number {
  const times = new Map<number, number>();
  for (const number of numbers) times.set(number, (times.get(number) ?? 0) + 1);
  const [most] = [...times].toSorted(([a, timesA], [b, timesB]) => timesB - timesA || b - a);
  return most?.[0] ?? 0;
}

type Operation = [what: string, act: () => Promise<unknown>, most?: number];

async function operations(stoa: Stoa, url: string): Promise<Operation[]> {
  const caller = operatorCaller('trips', 'agent');
  const { workspaces, data } = stoa;
  const workspace = await workspaces.createWorkspace(caller, { name: 'trips' });
  const project = await workspaces.createProject(caller, workspace.id, { name: 'trips' });
  const session = await workspaces.createSession(caller, project.id, { status: 'active' });
  const create = (): Promise<unknown> => workspaces.createTask(caller, session.id, { command: 'x' });
  const claims: { id: string; fence: number }[] = [];
  const claim = async (): Promise<void> => {
    const claimed = await workspaces.claimTask(caller, project.id);
    if (claimed === null) throw new Error('There is no task to claim.');
    claims.push({ id: claimed.task.id, fence: claimed.lease.fence });
  };
  const complete = async (): Promise<void> => {
    const { id, fence } = claims.pop() ?? { id: '', fence: 0 };
    await workspaces.completeTask(caller, id, { fence, output: 'done' });
  };
  let number = 0;
  const { agent_id } = await stoa.registry.createAgent(caller, { name: 'trips' });
  return [
    ['a data set by an agent', () => data.set(caller, 'trips', `k${(number += 1)}`, 1), 2],
    ['a data get', () => data.get(operatorCaller('trips'), 'trips', 'k1')],
    ['a heartbeat of an agent', () => stoa.registry.heartbeat(caller, agent_id, {})],
    ['a new task', create],
    ['a claim', claim, 3],
    ['a completion', complete],
    ['a signed post', await signedPost(url), 4],
  ];
}

async function signedPost(url: string): Promise<() => Promise<void>> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64');
  const headers = { 'content-type': 'application/json' };
  const registered = await fetch(`${url}/register`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ public_key: key, name: 'trips' }),
  });
  const { id } = (await registered.json()) as { id: string };
  return async () => {
    const body = JSON.stringify({ body: 'hello' });
    const [nonce, timestamp] = [randomUUID(), String(Date.now())];
    const signature = sign(
      null,
      Buffer.from(aicqSignedText(Buffer.from(body), nonce, timestamp)),
      privateKey,
    );
    const answer = await fetch(`${url}/room/global`, {
      method: 'POST',
      body,
      headers: {
        ...headers,
        'x-aicq-agent': id,
        'x-aicq-nonce': nonce,
        'x-aicq-timestamp': timestamp,
        'x-aicq-signature': signature.toString('base64'),
      },
    });
    if (answer.status !== 201) throw new Error(`The post was answered ${answer.status}.`);
    await answer.text();
  };
}
