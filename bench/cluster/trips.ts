/** How often the hot operations wait for PostgreSQL and for Redis, counted between Stoa and the servers. */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { type AddressInfo, type Server, connect, createServer } from 'node:net';
import { operatorCaller } from '../../src/core/caller.js';
import { aicqSignedText } from '../../src/identity/signatures.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import type { Row } from '../frame.js';
import type { Place } from './cluster.js';

const calls = 200;

/** A way to a server that counts the requests which follow an answer: each of them is one trip. */
class CountingProxy {
  trips = 0;
  readonly #server: Server;

  constructor(target: URL) {
    this.#server = createServer((inside) => {
      const outside = connect(Number(target.port), target.hostname);
      let answered = true;
      inside.on('data', (chunk) => {
        if (answered) this.trips += 1;
        answered = false;
        outside.write(chunk);
      });
      outside.on('data', (chunk) => {
        answered = true;
        inside.write(chunk);
      });
      for (const socket of [inside, outside]) {
        socket.on('error', () => undefined);
        socket.on('close', () => {
          inside.destroy();
          outside.destroy();
        });
      }
    });
  }

  async open(target: string): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const through = new URL(target);
    // A TCP server that listens has an AddressInfo.
    through.port = String((this.#server.address() as AddressInfo).port);
    return through.href;
  }

  close(): void {
    this.#server.close();
  }
}

export async function tripRows(place: Place): Promise<Row[]> {
  const [postgres, redis] = [
    new CountingProxy(new URL(place.postgres)),
    new CountingProxy(new URL(place.redis)),
  ];
  const stoa = await openStoa({
    ...place,
    postgres: await postgres.open(place.postgres),
    redis: await redis.open(place.redis),
    messagingSettings: { rateLimitAllow: ['127.0.0.1'] },
    limits: { postsPerMinuteMax: 1_000_000, messageBytesPerMinuteMax: 1_000_000_000 },
  });
  const app = createApp(stoa);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const count = (): number => postgres.trips + redis.trips;
  /** Trips of one call, without those that the server makes by itself in the same time. */
  const tripsOf = async (act: () => Promise<unknown>): Promise<number> => {
    for (let call = 0; call < 20; call += 1) await act();
    const [before, startedMs] = [count(), performance.now()];
    for (let call = 0; call < calls; call += 1) await act();
    const [busy, tookMs] = [count() - before, performance.now() - startedMs];
    const idleBefore = count();
    await new Promise((resolve) => setTimeout(resolve, tookMs));
    return (busy - (count() - idleBefore)) / calls;
  };
  try {
    const rows: Row[] = [];
    for (const [what, act, most] of await operations(stoa, url))
      rows.push({
        what: `round trips of ${what}`,
        ours: await tripsOf(act),
        reference: 1,
        unit: 'trips',
        ...(most !== undefined && { target: { atMost: most + 0.2 } }),
      });
    return rows;
  } finally {
    await stopApp(app, 1);
    await stoa.close();
    postgres.close();
    redis.close();
  }
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
