/** What tokens do on every home. */
import { EventEmitter, once } from 'node:events';
import { afterEach, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { Step } from '../../src/core/write.js';
import type { IdentityPort, TokenWithUse } from '../../src/identity/port.js';
import type { IdentityService } from '../../src/identity/service.js';
import type { TokenRecord } from '../../src/identity/tokens.js';

export interface TokenBench {
  identity: IdentityService;
  /** Between the service and the home. */
  port: GatedIdentity;
  clock: { nowMs: number };
  /** Does what is due by the clock. */
  sweep(): Promise<void>;
  /** Everything that is stored, as text. */
  dump(): Promise<string>;
  close(): Promise<void>;
}

export type OpenTokens = (limits: {
  tokensCachedMax: number;
  tokensPerUserMax: number;
}) => Promise<TokenBench>;

/** Answers a token only after the gate has opened, as a database over a slow network does. */
export class GatedIdentity implements IdentityPort {
  gate: Promise<unknown> = Promise.resolve();
  readonly #port: IdentityPort;

  constructor(port: IdentityPort) {
    this.#port = port;
  }

  async findToken(id: string): Promise<TokenRecord | undefined> {
    const found = await this.#port.findToken(id);
    await this.gate;
    return found;
  }

  checkUser(user: string): void | Promise<void> {
    return this.#port.checkUser(user);
  }

  createToken(record: TokenRecord, perUserMax: number): Step<TokenRecord> {
    return this.#port.createToken(record, perUserMax);
  }

  listTokens(user: string, limit: number, afterId: string | undefined): Promise<TokenWithUse[]> {
    return this.#port.listTokens(user, limit, afterId);
  }

  revokeTokens(user: string, id: string | undefined): Step<string[]> {
    return this.#port.revokeTokens(user, id);
  }

  isCacheValid(): boolean {
    return this.#port.isCacheValid();
  }

  recordUses(uses: ReadonlyMap<string, number>): Step<void> {
    return this.#port.recordUses(uses);
  }
}

const operator = operatorCaller();

export function describeTokens(name: string, openBench: OpenTokens): void {
  describe(`tokens on ${name}`, () => {
    let bench: TokenBench;
    afterEach(() => bench.close());

    const open = async (limits: { tokensCachedMax?: number; tokensPerUserMax?: number } = {}) => {
      bench = await openBench({ tokensCachedMax: 100, tokensPerUserMax: 100, ...limits });
      return bench;
    };

    test('one that is revoked while it is looked up is not remembered as good', async () => {
      const { port, identity } = await open();
      const { token, token_id } = await identity.createToken(operator, 'ada', {}, null);
      const gate = new EventEmitter();
      port.gate = once(gate, 'open');
      const underWay = identity.authenticate(token);
      await identity.revokeTokens(operator, 'ada', token_id);
      gate.emit('open');
      // Whether the look-up came before the revocation or after it, depends on the home.
      await Promise.resolve(underWay).catch((error: unknown) =>
        expect(error).toMatchObject({ code: 'unauthenticated' }),
      );
      await expect(async () => identity.authenticate(token)).rejects.toMatchObject({
        code: 'unauthenticated',
      });
      expect(await identity.isLive({ tokenId: token_id })).toBe(false);
    });

    test('are refused from the moment in which they are revoked or have expired', async () => {
      const { clock, identity } = await open();
      const kept = await identity.createToken(operator, 'ada', {}, null);
      const revoked = await identity.createToken(operator, 'ada', {}, null);
      const expiring = await identity.createToken(operator, 'ada', { expires_in: 60 }, null);
      for (const { token } of [kept, revoked, expiring]) await identity.authenticate(token);
      expect(await identity.revokeTokens(operator, 'ada', revoked.token_id)).toEqual([revoked.token_id]);
      clock.nowMs += 61_000;
      await bench.sweep();
      const live = [kept, revoked, expiring].map(({ token_id }) => identity.isLive({ tokenId: token_id }));
      expect(await Promise.all(live)).toEqual([true, false, false]);
      for (const { token } of [revoked, expiring])
        await expect(async () => identity.authenticate(token)).rejects.toMatchObject({
          code: 'unauthenticated',
        });
      expect((await identity.listTokens(operator, 'ada')).items.map(({ token_id }) => token_id)).toEqual([
        kept.token_id,
      ]);
    });

    test('that are revoked during a request make no link that outlives them', async () => {
      const { identity } = await open();
      const { token, token_id } = await identity.createToken(operator, 'ada', {}, null);
      const caller = { ...operator, ...(await identity.authenticate(token)), everyUser: false };
      await identity.revokeTokens(operator, 'ada', token_id);
      await expect(identity.console.createCode(caller)).rejects.toMatchObject({ code: 'unauthenticated' });
      expect((await identity.listTokens(operator, 'ada')).items).toEqual([]);
    });

    test('that fell out of memory are looked up again for the streams that they opened', async () => {
      const { identity } = await open({ tokensCachedMax: 1 });
      const first = await identity.createToken(operator, 'ada', {}, null);
      const second = await identity.createToken(operator, 'ada', {}, null);
      await identity.authenticate(first.token);
      await identity.authenticate(second.token);
      expect(await identity.isLive({ tokenId: first.token_id })).toBe(true);
      await identity.revokeTokens(operator, 'ada', first.token_id);
      expect(await identity.isLive({ tokenId: first.token_id })).toBe(false);
      // The only place in memory goes to the other token again.
      await identity.authenticate(second.token);
      expect(await identity.isLive({ tokenId: first.token_id })).toBe(false);
    });

    test('ten requests under one Idempotency-Key make one, whose secret is not kept', async () => {
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
      const stored = await bench.dump();
      expect(stored).toContain(made?.token_id);
      expect(stored).not.toContain(made?.token);
    });

    test('of one user stay within the limit when many are made at once', async () => {
      const { identity } = await open({ tokensPerUserMax: 3 });
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, () => identity.createToken(operator, 'ada', {}, null)),
      );
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
      for (const outcome of outcomes)
        if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'quota_exceeded' });
      await identity.createToken(operator, 'bob', {}, null);
      expect(await identity.revokeTokens(operator, 'ada', undefined)).toHaveLength(3);
      await identity.createToken(operator, 'ada', {}, null);
    });

    test('are refused with a name or an end that could not be stored', async () => {
      const { identity } = await open();
      for (const input of [
        { name: 'a\0b' },
        { name: 'a\nb' },
        { name: 'a\ud800' },
        { expires_at: '+010000-01-01T00:00:00.000Z' },
      ])
        await expect(identity.createToken(operator, 'ada', input, null)).rejects.toMatchObject({
          code: 'invalid_request',
        });
      const last = { name: 'für 😀', expires_at: '9999-12-31T23:59:59.999Z' };
      await identity.createToken(operator, 'ada', last, null);
      expect((await identity.listTokens(operator, 'ada')).items).toMatchObject([last]);
    });

    test('keep name, scopes and last use, and are listed page by page', async () => {
      const { identity, clock } = await open();
      const scopes = { write: false, namespaces: ['a:b', 'c'] };
      const made = await identity.createToken(operator, 'ada', { name: 'for CI', scopes }, null);
      for (let count = 0; count < 4; count += 1) await identity.createToken(operator, 'ada', {}, null);
      await identity.createToken(operator, 'bob', {}, null);
      expect(await identity.authenticate(made.token)).toMatchObject({ user: 'ada', scopes });
      await identity.flush();
      const ids: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await identity.listTokens(operator, 'ada', { limit: 2, cursor });
        for (const token of page.items)
          if (token.token_id === made.token_id)
            expect(token).toMatchObject({
              name: 'for CI',
              scopes,
              last_used_at: new Date(clock.nowMs).toISOString(),
            });
        ids.push(...page.items.map(({ token_id }) => token_id));
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect(ids).toHaveLength(5);
      expect(ids).toEqual(ids.toSorted());
    });
  });
}
