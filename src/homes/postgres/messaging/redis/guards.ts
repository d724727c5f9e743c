/**
 * Nonces, rate limits, violations and blocks in Redis, which all servers share. If Redis is unavailable,
 * every check fails: nothing is allowed without a check.
 */
import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Limits } from '../../../../core/settings/limits.js';
import type { Block } from '../../../../messaging/model.js';
import type { BlockPage, CountedRequest, NonceClaim, RateKey } from '../../../../messaging/port.js';
import type { RateDecision } from '../../../../messaging/gate/sliding-windows.js';
import { type RedisKeys, blockedPrefix } from './keys.js';
import { type RedisConnection, runScript, withRedis } from './connection.js';

export class RedisGuards {
  readonly #redis: RedisConnection;
  readonly #keys: RedisKeys;
  readonly #limits: Limits;
  readonly #nowMs: () => number;

  constructor(redis: RedisConnection, keys: RedisKeys, limits: Limits, nowMs: () => number) {
    this.#redis = redis;
    this.#keys = keys;
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  async nonceUsed(agentId: string, nonce: string): Promise<boolean> {
    return (await withRedis(() => this.#redis.commands.exists(this.#keys.nonce(agentId, nonce)))) > 0;
  }

  /** On a cluster the two keys may be on different nodes, so the request is counted after the nonce. */
  async claimNonce(agentId: string, nonce: string, counted?: CountedRequest): Promise<NonceClaim> {
    const key = this.#keys.nonce(agentId, nonce);
    const release = async (): Promise<void> => {
      await withRedis(() => this.#redis.commands.del(key));
    };
    const { nonceSeconds } = this.#limits;
    const durable = Promise.resolve();
    if (counted !== undefined && !this.#redis.isCluster) {
      const { keyName, args } = this.#rateCall(counted);
      const answer = await runScript(this.#redis.commands, 'stoaUseNonce', [
        key,
        keyName,
        nonceSeconds,
        ...args,
      ]);
      const taken = answer as RateAnswer | [];
      const rate = taken.length === 0 ? null : decisionOf(counted, taken);
      return { fresh: rate !== null, durable, rate, release };
    }
    const set = await withRedis(() => this.#redis.commands.set(key, '1', 'EX', nonceSeconds, 'NX'));
    const fresh = set === 'OK';
    return {
      fresh,
      durable,
      rate: fresh && counted !== undefined ? await this.#count(counted) : null,
      release,
    };
  }

  takeRate(key: RateKey, limit: number, windowSeconds: number): Promise<RateDecision> {
    return this.#count({ key, limit, windowSeconds });
  }

  async #count(counted: CountedRequest): Promise<RateDecision> {
    const { keyName, args } = this.#rateCall(counted);
    const answer = await runScript(this.#redis.commands, 'stoaRate', [keyName, ...args]);
    return decisionOf(counted, answer as RateAnswer);
  }

  #rateCall({ key, limit, windowSeconds }: CountedRequest): { keyName: string; args: (string | number)[] } {
    const { endpoint, scope, subject } = key;
    const nowMs = this.#nowMs();
    return {
      keyName: this.#keys.rate(scope, subject, endpoint, windowSeconds),
      args: [nowMs, windowSeconds * 1000, limit, `${nowMs}-${randomBytes(8).toString('hex')}`],
    };
  }

  async returnRate({ endpoint, scope, subject }: RateKey, windowSeconds: number): Promise<void> {
    await withRedis(() =>
      this.#redis.commands.zpopmax(this.#keys.rate(scope, subject, endpoint, windowSeconds)),
    );
  }

  async recordViolation(address: string): Promise<boolean> {
    const key = this.#keys.violations(address);
    const count = Number(await runScript(this.#redis.commands, 'stoaViolation', [key]));
    if (count < this.#limits.violationsPerHourMax) return false;
    await withRedis(() => this.#redis.commands.del(key));
    return true;
  }

  async block({ address, reason, expiresAtMs }: Block): Promise<void> {
    await withRedis(() =>
      this.#redis.commands.set(
        this.#keys.blocked(address),
        reason,
        'PX',
        Math.max(1, expiresAtMs - this.#nowMs()),
      ),
    );
  }

  async blockOf(address: string): Promise<Block | undefined> {
    const reason = await withRedis(() => this.#redis.commands.get(this.#keys.blocked(address)));
    return reason === null ? undefined : { address, reason, expiresAtMs: 0 };
  }

  /** The keys in Redis have no order, so all of them are scanned. Only the blocks of the page are read. */
  async blocks(after: string | null, limit: number): Promise<BlockPage> {
    const addresses = (await this.scan(`${blockedPrefix}*`)).map((key) => key.slice(blockedPrefix.length));
    const rest = addresses.filter((address) => after === null || address > after).toSorted();
    const page = rest.slice(0, limit);
    const found = await Promise.all(page.map((address) => this.#block(address)));
    return {
      items: found.filter((block) => block !== undefined),
      next: rest.length > limit ? (page.at(-1) ?? null) : null,
    };
  }

  async countBlocks(): Promise<number> {
    return (await this.scan(`${blockedPrefix}*`)).length;
  }

  async #block(address: string): Promise<Block | undefined> {
    const key = this.#keys.blocked(address);
    const [reason, lifeMs] = await withRedis(() =>
      Promise.all([this.#redis.commands.get(key), this.#redis.commands.pttl(key)]),
    );
    return reason === null ? undefined : { address, reason, expiresAtMs: this.#nowMs() + lifeMs };
  }

  async unblock(address: string): Promise<boolean> {
    const removed = await withRedis(async () => {
      await this.#redis.commands.del(this.#keys.violations(address));
      return this.#redis.commands.del(this.#keys.blocked(address));
    });
    return removed > 0;
  }

  /** All keys that match a pattern, on all nodes. */
  async scan(pattern: string): Promise<string[]> {
    const { commands } = this.#redis;
    const nodes: Redis[] = 'nodes' in commands ? commands.nodes('master') : [commands];
    const keys = new Set<string>();
    for (const node of nodes) {
      let cursor = '0';
      do {
        const [next, page] = await withRedis(() => node.scan(cursor, 'MATCH', pattern, 'COUNT', 1_000));
        for (const key of page) keys.add(key);
        cursor = next;
      } while (cursor !== '0');
    }
    return [...keys];
  }
}

/** What the scripts answer: whether the request is allowed, how many there are, and when the oldest came. */
type RateAnswer = [allowed: number, used: number, oldestMs: string];

function decisionOf(
  { limit, windowSeconds }: CountedRequest,
  [allowed, used, oldest]: RateAnswer,
): RateDecision {
  return {
    allowed: allowed === 1,
    limit,
    remaining: Math.max(0, limit - used),
    resetAtMs: Number(oldest) + windowSeconds * 1000,
  };
}
