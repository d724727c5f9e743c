/** The gate before every messaging route: blocked addresses, load from one address, rates of endpoints. */
import type { Caller } from '../../core/caller.js';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Page, type PageRequest, decodeTextCursor, encodeCursor, pageLimit } from '../../core/paging.js';
import { type AddressRanges, countedAddress, isLoopback, plainAddress } from './addresses.js';
import { within } from '../../core/waiting/within.js';
import { BlockWatch } from './block-watch.js';
import type { Block } from '../model.js';
import type { CountedRequest, MessagingPort, RateKey } from '../port.js';
import {
  type Endpoint,
  type RateLimit,
  type RateLimitTable,
  everyEndpoint,
  rateLimitFor,
  rateLimitTable,
} from './rate-limits.js';
import { refuse } from '../refusals.js';
import type { RateDecision } from './sliding-windows.js';

export interface GateOptions {
  port: MessagingPort;
  limits: Limits;
  /** Exempt from rates and blocks, but not from the limit of bytes. */
  allowed: AddressRanges;
  /** Block addresses that exceed limits again and again. */
  autoBlock: boolean;
}

const minute = 60;
/**
 * How long an address that was not blocked is not looked up again. A block on another server takes effect
 * within this time.
 */
const unblockedMs = 1_000;
/**
 * How long a request under /v1 waits for the list of blocked addresses. If the list cannot be read, or not
 * within this time, the request continues: most of /v1 works without Redis, and a block is not a permission
 * check.
 */
const blockLookupWaitMs = 1_000;
const addressesKeptMax = 10_000;
const blockList = 'blocks';
/** An IPv6 network and its length in bits are shorter. */
const addressBytesMax = 64;

export class Gate {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  readonly #allowed: AddressRanges;
  readonly #autoBlock: boolean;
  readonly #watch: BlockWatch;
  /**
   * By counted address; removed after `unblockedMs`, or when an address is blocked. If blocks are in Redis,
   * it saves a round trip for each request under /v1.
   */
  readonly #unblockedUntilMs = new LRUCache<string, number>(entriesAtMost(addressesKeptMax));
  /** The lookups that have not ended, by counted address. Requests of one address share a lookup. */
  readonly #lookups = new Map<string, Promise<void>>();
  readonly #stopListening: () => void;
  readonly #table: RateLimitTable;

  constructor({ port, limits, allowed, autoBlock }: GateOptions) {
    this.#port = port;
    this.#limits = limits;
    this.#allowed = allowed;
    this.#autoBlock = autoBlock;
    this.#watch = new BlockWatch(port, limits.streamHeartbeatSeconds * 1_000);
    this.#table = rateLimitTable(limits);
    this.#stopListening = port.subscribe((notice) => {
      if (notice.topic === 'block') this.#unblockedUntilMs.delete(notice.address);
    });
  }

  isExempt(address: string): boolean {
    return this.#allowed.has(address);
  }

  limitFor(method: string, path: string): RateLimit | undefined {
    return rateLimitFor(this.#table, method, path);
  }

  limitOf(endpoint: Endpoint): RateLimit | undefined {
    return this.#table.find((row) => row.endpoint === endpoint);
  }

  /** Called before anything is read or verified. If a window is full, returns its decision. */
  async admit(address: string): Promise<RateDecision | undefined> {
    if (this.isExempt(address)) return undefined;
    const counted = countedAddress(address);
    const everything: RateKey = { endpoint: everyEndpoint, scope: 'ip', subject: counted };
    // One round trip to Redis for both. A refused request of a blocked address is counted too.
    const [block, decision] = await Promise.all([
      this.#port.blockOf(counted),
      this.#port.takeRate(everything, this.#limits.addressRequestsPerMinuteMax, minute),
    ]);
    if (block !== undefined) throw refuse('blocked');
    return decision;
  }

  /**
   * For routes that do not count requests by address. The result is used for `unblockedMs`, or until the
   * address is blocked.
   */
  checkBlocked(address: string): void | Promise<void> {
    if (this.isExempt(address)) return undefined;
    const counted = countedAddress(address);
    if ((this.#unblockedUntilMs.get(counted) ?? 0) > performance.now()) return undefined;
    let lookup = this.#lookups.get(counted);
    if (lookup === undefined) {
      lookup = within(blockLookupWaitMs, this.#look(counted));
      this.#lookups.set(counted, lookup);
    }
    return lookup;
  }

  async #look(counted: string): Promise<void> {
    const startedMs = performance.now();
    try {
      await this.#refuseBlocked(counted);
      this.#unblockedUntilMs.set(counted, startedMs + unblockedMs);
    } catch (error) {
      if (!(error instanceof StoaError) || error.code !== 'backend_unavailable') throw error;
      this.#unblockedUntilMs.set(counted, performance.now() + unblockedMs);
    } finally {
      this.#lookups.delete(counted);
    }
  }

  /** Checks a request again after it has waited: its address may be blocked now. */
  async admitAgain(address: string): Promise<void> {
    if (!this.isExempt(address)) await this.#refuseBlocked(countedAddress(address));
  }

  /** Calls `end` when the address of an open stream is blocked. Returns a function that stops it. */
  whileAdmitted(address: string, end: () => void): () => void {
    return this.isExempt(address) ? () => undefined : this.#watch.enter(countedAddress(address), end);
  }

  async #refuseBlocked(counted: string): Promise<void> {
    if ((await this.#port.blockOf(counted)) !== undefined) throw refuse('blocked');
  }

  /**
   * Counts a request under its endpoint: by agent if one is verified or named, otherwise by address. Requests
   * of the operator are not counted.
   */
  take(limit: RateLimit, address: string, caller: Caller | null): Promise<RateDecision> | undefined {
    if (caller?.kind === 'operator' || this.isExempt(address)) return undefined;
    if (limit.by === 'agent' && caller !== null) {
      return caller.identity === null
        ? this.#takeNamed(limit, caller)
        : this.#take(limit, 'agent', caller.identity);
    }
    return this.#take(limit, 'ip', countedAddress(address));
  }

  /**
   * How `take` would count a request of a signing agent, for a caller that counts it with its nonce.
   * Undefined if it does not count by agent.
   */
  countedFor({ by, endpoint, limit, windowSeconds }: RateLimit, address: string, agentId: string) {
    if (by !== 'agent' || this.isExempt(address)) return undefined;
    const key: RateKey = { endpoint, scope: 'agent', subject: agentId };
    return { key, limit, windowSeconds } satisfies CountedRequest;
  }

  /** Counts a part of another call, such as a tool or an operation of a commit, like a request to the endpoint. */
  async count(caller: Caller, endpoint: Endpoint): Promise<void> {
    const limit = this.limitOf(endpoint);
    if (limit === undefined) return;
    const address = caller.address ?? '';
    const decision = await this.take(limit, address, caller);
    if (decision?.allowed !== false) return;
    const refusal = refuse('rate', { fix: 'Wait a minute, or say more in fewer messages.' });
    await this.refused(address, `${refusal.message}: ${endpoint}`);
    throw refusal;
  }

  /** A caller with a token can use any number of agent names, so its user has a limit over all of them. */
  async #takeNamed(limit: RateLimit, { user, agent }: Caller): Promise<RateDecision> {
    // A user's name may contain a slash. An encoded name does not, so two callers never have the same key.
    const subject = `${encodeURIComponent(user)}/${agent ?? ''}`;
    const own = await this.#take(limit, 'agent', subject);
    if (!own.allowed) return own;
    const all = await this.#take(
      { ...limit, limit: limit.limit * this.#limits.namedAgentBudgetsMax },
      'user',
      user,
    );
    if (!all.allowed)
      await this.#port.returnRate({ endpoint: limit.endpoint, scope: 'agent', subject }, limit.windowSeconds);
    return !all.allowed || all.remaining < own.remaining ? all : own;
  }

  #take(
    { endpoint, limit, windowSeconds }: RateLimit,
    scope: RateKey['scope'],
    subject: string,
  ): Promise<RateDecision> {
    return this.#port.takeRate({ endpoint, scope, subject }, limit, windowSeconds);
  }

  /** A request was refused because of its rate. Too many of these block the address. */
  async refused(address: string, reason: string): Promise<void> {
    if (!this.#autoBlock || isLoopback(address) || this.isExempt(address)) return;
    const counted = countedAddress(address);
    if (!(await this.#port.recordViolation(counted))) return;
    await this.#port.block({
      address: counted,
      reason,
      expiresAtMs: this.#port.nowMs() + this.#limits.blockSeconds * 1000,
    });
  }

  async blocks({ limit, cursor }: PageRequest): Promise<Page<Block>> {
    const after = decodeTextCursor(blockList, cursor, addressBytesMax);
    const { items, next } = await this.#port.blocks(after, pageLimit(limit, this.#limits));
    return { items, next_cursor: next === null ? null : encodeCursor(blockList, Buffer.from(next)) };
  }

  countBlocks(): Promise<number> {
    return this.#port.countBlocks();
  }

  /** The name of an address, or of the network under which it is listed. */
  unblock(address: string): Promise<boolean> {
    const network = /^(.+)\/64$/.exec(address)?.[1];
    const plain = plainAddress(network ?? address);
    if (isIP(plain) === 0 || (network !== undefined && isIP(plain) !== 6))
      throw new StoaError('invalid_request', `Invalid IP address "${address.slice(0, 60)}".`, {
        fix: 'Use an address from GET /v1/blocks, such as 203.0.113.7 or 2001:db8::/64.',
        details: { field: 'ip' },
      });
    return this.#port.unblock(countedAddress(plain));
  }

  close(): void {
    this.#stopListening();
    this.#watch.close();
  }
}
