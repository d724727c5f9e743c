/** Lists of the registry: several indexes of one order intersected, several shards merged. */
import { type RangeOptions, keyAfterPrefix, prefixRange } from '../kernel/engine.js';
import type { Store } from '../kernel/store.js';
import type { Reader } from '../kernel/transaction.js';
import { labelPrefix, namePrefix, sessionStatusPrefix, statusPrefix } from '../../../registry/layout/keys.js';
import type { SessionStatus } from '../../../registry/model.js';
import type { AgentFilter, KeyedPage, KeyedPageRequest } from '../../../registry/port.js';
import { Slices } from '../../../core/waiting/yielding.js';
import { registryFamilies as families } from './families.js';

/** An index whose keys are a prefix followed by user and agent. */
interface AgentIndex {
  family: string;
  prefix: Buffer;
}

/** A key in the order of a list. A key without a match only shows how far the search has come. */
export interface ListKey {
  key: Buffer;
  isMatch: boolean;
  /** The record itself, if the list reads the records and not an index. */
  value?: Buffer;
}

/**
 * The keys (user and agent) of the agents that pass every filter, in order, after a key and of one user or
 * all.
 */
export function matchingAgents(
  reader: Reader,
  filter: AgentFilter,
  user: Buffer | null,
  after: Buffer | null,
  seeksMax: number,
): Iterable<ListKey> {
  const indexes: AgentIndex[] = [];
  if (filter.label !== undefined)
    indexes.push({
      family: families.agentsByLabel,
      prefix: labelPrefix(filter.label.name, filter.label.value),
    });
  if (filter.name !== undefined)
    indexes.push({ family: families.agentsByName, prefix: namePrefix(filter.name) });
  if (filter.status !== undefined)
    indexes.push({ family: families.agentsByStatus, prefix: statusPrefix(filter.status) });
  let from = after === null ? Buffer.alloc(0) : justAfter(after);
  // A forged cursor must not reach below the user's own keys.
  if (user !== null && Buffer.compare(from, user) < 0) from = user;
  if (indexes.length === 0) return records(reader, user, from);
  return indexes.length === 1
    ? matches(keysFrom(reader, indexes[0] as AgentIndex, user, from))
    : intersection(reader, indexes, user, from, seeksMax);
}

function* records(reader: Reader, user: Buffer | null, from: Buffer): Generator<ListKey> {
  for (const { key, value } of reader.range(families.agents, boundsFrom(Buffer.alloc(0), user, from)))
    yield { key, value, isMatch: true };
}

/** Keys that are all matches. */
export function* matches(keys: Iterable<Buffer>): Generator<ListKey> {
  for (const key of keys) yield { key, isMatch: true };
}

/** How a key of a list is written as text. */
type KeyText = 'hex' | 'utf8';

/** The key that a page begins after. */
function keyOf(after: string | null, keyText: KeyText): Buffer | null {
  return after === null ? null : Buffer.from(after, keyText);
}

export type KeysOf = (store: Store, after: Buffer | null) => Iterable<ListKey>;

/** Items that are read before other requests can run. */
const itemsPerStep = 100;

/** One page over all stores: their ordered keys merged, so that the cursor means the same in each. */
export async function mergedPage<T>(
  stores: readonly Store[],
  keysOf: KeysOf,
  read: ReadMany<T>,
  { after, limit }: KeyedPageRequest,
  keyText: KeyText,
): Promise<KeyedPage<T>> {
  const items: T[] = [];
  const slices = new Slices();
  for (let nextKey = after; ;) {
    const from = keyOf(nextKey, keyText);
    const stepLimit = Math.min(limit - items.length, itemsPerStep);
    const step = mergedStep(stores, (store) => keysOf(store, from), read, stepLimit, keyText);
    items.push(...step.items);
    ({ nextKey } = step);
    // A short step that is not the end has done its share of work.
    if (nextKey === null || items.length === limit || step.items.length < stepLimit)
      return { items, nextKey };
    await slices.pause();
  }
}

function mergedStep<T>(
  stores: readonly Store[],
  keysOf: (store: Store) => Iterable<ListKey>,
  read: ReadMany<T>,
  limit: number,
  keyText: KeyText,
): KeyedPage<T> {
  const items: T[] = [];
  let lastKey: string | null = null;
  // Keys whose rows are read together once they would fill the page.
  let waiting: FoundKey[] = [];
  const readWaiting = (): void => {
    for (const { key, item } of readAll(waiting, read)) {
      // An index row without its record.
      if (item === undefined) continue;
      items.push(item);
      lastKey = key.toString(keyText);
    }
    waiting = [];
  };
  for (const found of merged(stores, keysOf)) {
    if (items.length + waiting.length === limit) readWaiting();
    if (items.length === limit) return { items, nextKey: lastKey };
    if (!found.isMatch) {
      readWaiting();
      return { items, nextKey: found.key.toString(keyText) };
    }
    waiting.push(found);
  }
  readWaiting();
  return { items, nextKey: null };
}

/** Reads the rows under several keys of one store. */
export type ReadMany<T> = (store: Store, found: readonly ListKey[]) => (T | undefined)[];

/** One key after the other. */
export function each<T>(read: (store: Store, key: Buffer) => T | undefined): ReadMany<T> {
  return (store, found) => found.map(({ key }) => read(store, key));
}

type FoundKey = ListKey & { store: Store };

/** The items of keys in the order of the keys, read store by store. */
function readAll<T>(found: readonly FoundKey[], read: ReadMany<T>): { key: Buffer; item: T | undefined }[] {
  const answers = found.map(({ key }) => ({ key, item: undefined as T | undefined }));
  for (const store of new Set(found.map((one) => one.store))) {
    const places = found.flatMap((one, index) => (one.store === store ? [index] : []));
    const items = read(
      store,
      places.map((index) => found[index] as FoundKey),
    );
    for (const [at, index] of places.entries()) (answers[index] as { item: T | undefined }).item = items[at];
  }
  return answers;
}

function* keysFrom(
  reader: Reader,
  { family, prefix }: AgentIndex,
  user: Buffer | null,
  from: Buffer,
): Generator<Buffer> {
  for (const { key } of reader.range(family, boundsFrom(prefix, user, from)))
    yield key.subarray(prefix.length);
}

function boundsFrom(prefix: Buffer, user: Buffer | null, from: Buffer): RangeOptions {
  const lt = keyAfterPrefix(user === null ? prefix : Buffer.concat([prefix, user]));
  const gte = Buffer.concat([prefix, from]);
  // Engines do not accept an empty key, also not as a bound.
  return { ...(gte.length > 0 && { gte }), ...(lt !== undefined && { lt }) };
}

/**
 * Each index in turn is asked for the next key at or after the candidate; a key that all of them have is a
 * match.
 */
function* intersection(
  reader: Reader,
  indexes: readonly AgentIndex[],
  user: Buffer | null,
  from: Buffer,
  seeksMax: number,
): Generator<ListKey> {
  let candidate = from;
  let agreeing = 0;
  for (let seeks = 1; ; seeks += 1) {
    const next = firstOf(keysFrom(reader, indexes[seeks % indexes.length] as AgentIndex, user, candidate));
    if (next === undefined) return;
    agreeing = next.equals(candidate) ? agreeing + 1 : 1;
    candidate = next;
    const isMatch = agreeing >= indexes.length;
    if (isMatch) yield { key: candidate, isMatch };
    if (isMatch || seeks >= seeksMax) {
      // A candidate is a match only if every index has it.
      if (
        !isMatch &&
        indexes.every((index) => firstOf(keysFrom(reader, index, user, candidate))?.equals(candidate))
      )
        yield { key: candidate, isMatch: true };
      if (seeks >= seeksMax) yield { key: candidate, isMatch: false };
      candidate = justAfter(candidate);
      agreeing = 0;
    }
  }
}

function* merged(
  stores: readonly Store[],
  keysOf: (store: Store) => Iterable<ListKey>,
): Generator<ListKey & { store: Store }> {
  const heads = stores.map((store) => {
    const iterator = keysOf(store)[Symbol.iterator]();
    return { store, iterator, current: iterator.next() };
  });
  try {
    for (;;) {
      let least: (typeof heads)[number] | undefined;
      for (const head of heads) {
        if (head.current.done === true) continue;
        if (
          least === undefined ||
          Buffer.compare(head.current.value.key, (least.current.value as ListKey).key) < 0
        )
          least = head;
      }
      if (least === undefined || least.current.done === true) return;
      yield { ...least.current.value, store: least.store };
      least.current = least.iterator.next();
    }
  } finally {
    for (const { iterator } of heads) iterator.return?.();
  }
}

function firstOf(keys: Iterable<Buffer>): Buffer | undefined {
  for (const key of keys) return key;
  return undefined;
}

/** The least key after this one. */
function justAfter(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

/** The sessions of an agent, with this status if one is given. */
export function* sessionKeys(
  reader: Reader,
  agent: Buffer,
  status: SessionStatus | undefined,
  after: Buffer | null,
): Generator<Buffer> {
  const family = status === undefined ? families.sessionsByAgent : families.sessionsByStatus;
  const prefix = status === undefined ? agent : sessionStatusPrefix(status, agent);
  const bounds = prefixRange(prefix);
  if (after !== null) Object.assign(bounds, { gte: undefined, gt: Buffer.concat([prefix, after]) });
  for (const { key } of reader.range(family, bounds)) yield key.subarray(prefix.length);
}

export function* userKeys(store: Store, after: Buffer | null): Generator<Buffer> {
  for (const { key } of store.range(families.users, after === null ? {} : { gt: after })) yield key;
}
