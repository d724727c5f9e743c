/** Homes for tests of moves: filled with everything that a Stoa can hold, opened for a move, and compared. */
import { randomBytes } from 'node:crypto';
import { operatorCaller } from '../../src/core/caller.js';
import type { JsonValue } from '../../src/datastore/model.js';
import { sorted } from '../../src/datastore/transfer/transfer.js';
import { type Limits, limitsWith } from '../../src/core/settings/limits.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { type MoveOptions, type MoveReport, moveHome } from '../../src/transfer/move/move.js';
import { moveSide } from '../../src/transfer/move/stores.js';
import { ada, bob, fill } from './kit.js';

export interface Filled {
  /** A bearer token of ada. */
  token: string;
  /** The agent whose lease "host" holds, and its fencing number. */
  agent: string;
  fence: number;
}

/** All that an export has, and all that it leaves out. */
export async function fillWhole(stoa: Stoa): Promise<Filled> {
  await fill(stoa);
  await stoa.registry.putUser(operatorCaller(), 'quiet', { email: 'quiet@example.org' });
  const scopes = { write: true, namespaces: ['notes'] };
  const expires_at = new Date(stoa.home.nowMs() + 86_400_000).toISOString();
  const created = await stoa.identity.createToken(
    operatorCaller(),
    'ada',
    { name: 'laptop', scopes, expires_at },
    null,
  );
  await stoa.identity.createToken(operatorCaller(), 'nobody-yet', { name: 'first' }, null);
  const [agent] = (await stoa.registry.listAgents(ada)).items;
  const agentId = agent?.agent_id as string;
  const { lease } = await stoa.registry.heartbeat(ada, agentId, { holder: 'host' });
  // A deleted agent leaves its fencing number behind.
  const gone = randomBytes(32).toString('hex');
  await stoa.registry.putAgent(bob, { agent_id: gone, name: 'gone' });
  for (const holder of ['a', 'b', 'c']) {
    await stoa.registry.heartbeat(bob, gone, { holder });
    await stoa.registry.releaseLease(bob, gone, { holder });
  }
  await stoa.registry.updateAgent(bob, gone, { status: 'error' });
  await stoa.registry.deleteAgent(bob, gone);
  await stoa.data.set(ada, 'notes', 'short-lived', 1, { ttl: 3_600 });
  await stoa.data.get(operatorCaller('ada', 'reader'), 'notes', 'twice');
  await stoa.data.tracker.flush();
  // The server signs for ada: it keeps a seed for her.
  await stoa.messaging.rooms.post(ada, { room: 'global' }, () => ({ body: 'signed here', pid: '' }), null);
  await stoa.messaging.port.block({
    address: '192.0.2.7',
    reason: 'too many requests',
    expiresAtMs: stoa.home.nowMs() + 3_600_000,
  });
  return { token: created.token, agent: agentId, fence: lease.fence };
}

export type Opening = Pick<StoaOptions, 'data' | 'postgres' | 'redis' | 'secretKeys' | 'engine' | 'shards'>;

export interface MoveRun {
  from: Opening;
  to: Opening;
  limits?: Partial<Limits>;
  onStep?: MoveOptions['onStep'];
}

/** As `stoa move` does it, in this process. */
export async function move({ from, to, limits, onStep }: MoveRun): Promise<MoveReport> {
  let instantMs = Date.now();
  const common = { limits, clock: () => instantMs, onError: () => undefined };
  const source = await openStoa({ ...from, ...common, move: 'from' });
  try {
    const target = await openStoa({ ...to, ...common, move: 'to' });
    try {
      return await moveHome({
        from: moveSide('the source', source.home),
        to: moveSide('the target', target.home),
        limits: limitsWith(limits),
        onInstant: (ms) => {
          instantMs = ms;
        },
        onStep,
      });
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** The lines of an export with secrets, in one order, without what names the store. */
export async function contentsOf(stoa: Stoa): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of stoa.transfer.export(operatorCaller(), { withSecrets: true })) lines.push(line);
  return lines
    .slice(1, -1)
    .map((line) => JSON.stringify(sorted(JSON.parse(line) as JsonValue)))
    .toSorted();
}
