import { EventEmitter, once } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import { DirectoryIdentity } from '../../src/homes/directory/identity/identity.js';
import { embeddedFamilies } from '../../src/homes/directory/families.js';
import { operatorCaller } from '../../src/core/caller.js';
import { DirectoryWriter } from '../../src/homes/directory/writer.js';
import { IdentityService } from '../../src/identity/service.js';
import type { TokenRecord } from '../../src/identity/tokens.js';
import { newOperatorToken } from '../../src/identity/tokens.js';
import { type Kernel, openKernel } from '../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../src/core/settings/limits.js';

const operator = operatorCaller();
let kernel: Kernel;
afterEach(() => kernel.close());

/** Answers a token only after the gate has opened, as a database over a network may. */
class SlowIdentity extends DirectoryIdentity {
  gate: Promise<unknown> = Promise.resolve();

  override async findToken(id: string): Promise<TokenRecord | undefined> {
    const found = await super.findToken(id);
    await this.gate;
    return found;
  }
}

async function open(tokensCachedMax = 100) {
  const clock = { nowMs: 1_768_473_000_000 };
  const limits = limitsWith({ tokensCachedMax });
  kernel = await openKernel({
    dataDir: '',
    engine: 'memory',
    families: embeddedFamilies,
    limits,
    clock: () => clock.nowMs,
  });
  const port = new SlowIdentity(kernel, (id) => identity.forget(id));
  const identity: IdentityService = new IdentityService({
    writer: new DirectoryWriter(kernel),
    port,
    limits,
    operatorToken: newOperatorToken(),
    nowMs: () => kernel.nowMs(),
    onError: (error) => {
      throw error;
    },
  });
  return { clock, port, identity };
}

test('a token that is revoked during its lookup is not cached as valid', async () => {
  const { port, identity } = await open();
  const { token, token_id } = await identity.createToken(operator, 'ada', {}, null);
  const gate = new EventEmitter();
  port.gate = once(gate, 'open');
  const underWay = identity.authenticate(token);
  await identity.revokeTokens(operator, 'ada', token_id);
  gate.emit('open');
  await underWay;
  await expect(async () => identity.authenticate(token)).rejects.toMatchObject({ code: 'unauthenticated' });
  expect(identity.isLive({ tokenId: token_id })).toBe(false);
});

test('a token is refused from the moment in which it is revoked or has expired', async () => {
  const { clock, identity } = await open();
  const kept = await identity.createToken(operator, 'ada', {}, null);
  const revoked = await identity.createToken(operator, 'ada', {}, null);
  const expiring = await identity.createToken(operator, 'ada', { expires_in: 60 }, null);
  for (const { token } of [kept, revoked, expiring]) await identity.authenticate(token);
  expect(await identity.revokeTokens(operator, 'ada', revoked.token_id)).toEqual([revoked.token_id]);
  clock.nowMs += 61_000;
  await kernel.sweep();
  expect([kept, revoked, expiring].map(({ token_id }) => identity.isLive({ tokenId: token_id }))).toEqual([
    true,
    false,
    false,
  ]);
  for (const { token } of [revoked, expiring])
    await expect(async () => identity.authenticate(token)).rejects.toMatchObject({ code: 'unauthenticated' });
  expect((await identity.listTokens(operator, 'ada')).items.map(({ token_id }) => token_id)).toEqual([
    kept.token_id,
  ]);
});

test('a token that left the cache is looked up again for the streams that it opened', async () => {
  const { identity } = await open(1);
  const first = await identity.createToken(operator, 'ada', {}, null);
  const second = await identity.createToken(operator, 'ada', {}, null);
  await identity.authenticate(first.token);
  await identity.authenticate(second.token);
  expect(identity.isLive({ tokenId: first.token_id })).toBe(true);
  await identity.revokeTokens(operator, 'ada', first.token_id);
  expect(identity.isLive({ tokenId: first.token_id })).toBe(false);
  // The only place in memory goes to the other token again.
  await identity.authenticate(second.token);
  identity.isLive({ tokenId: first.token_id });
  await new Promise((resolve) => setImmediate(resolve));
  expect(identity.isLive({ tokenId: first.token_id })).toBe(false);
});

test('ten requests under one Idempotency-Key make one token, whose secret is not kept', async () => {
  const { identity } = await open();
  const idempotency = { scope: 'operator', key: 'k', fingerprint: 'f', seconds: 60 };
  const outcomes = await Promise.allSettled(
    Array.from({ length: 10 }, () => identity.createToken(operator, 'ada', {}, idempotency)),
  );
  const [made, ...more] = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  );
  expect(more).toEqual([]);
  for (const outcome of outcomes)
    if (outcome.status === 'rejected')
      expect(outcome.reason).toMatchObject({ code: 'idempotency_unrepeatable' });
  expect((await identity.listTokens(operator, 'ada')).items).toHaveLength(1);
  const rows = kernel.root.families.flatMap((family) =>
    Array.from(kernel.root.range(family, {}), ({ value }) => value.toString('latin1')),
  );
  expect(rows.some((row) => row.includes(made?.token ?? 'no token'))).toBe(false);
});
