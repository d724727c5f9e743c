/** The raw entries of a store, for `stoa inspect`. */
import { Decoder } from 'cbor-x';
import { StoaError } from '../../../../core/errors.js';
import { didYouMean } from '../../../../core/text/nearest.js';
import { type FamilyStats, pageBytesMax, prefixRange } from '../engine.js';
import { kernelFamilies } from '../families.js';
import type { Store } from '../store.js';
import { walk } from '../walk.js';
import { nextTurn } from '../../../../core/waiting/yielding.js';
import type { InspectedEntry } from '../../../../operations/model.js';

/** The last entry of a page. The next page begins after it. */
interface InspectPosition {
  shard: number;
  after: Buffer;
}

export interface InspectPage {
  items: InspectedEntry[];
  next: InspectPosition | undefined;
}

/** Entries and bytes that are counted before other work can run. */
const entriesPerTurn = 1_000;
const bytesPerTurn = 4 * 1024 * 1024;

const cbor = new Decoder({ useRecords: false, mapsAsObjects: true });

/**
 * The bytes of all shards, and the count and size of each family in all shards: what the engines know without
 * reading the entries.
 */
export async function knownStats(
  stores: readonly Store[],
): Promise<{ sizeBytes: number; families: Map<string, FamilyStats> }> {
  const families = new Map<string, FamilyStats>();
  let sizeBytes = 0;
  for (const store of stores) {
    const stats = store.engine.stats();
    sizeBytes += stats.sizeBytes;
    for (const [family, found] of Object.entries(stats.families)) {
      const before = families.get(family) ?? { entries: 0, sizeBytes: 0, estimated: false };
      families.set(family, {
        entries: before.entries + found.entries,
        sizeBytes: before.sizeBytes + found.sizeBytes,
        estimated: before.estimated || found.estimated,
      });
    }
    await nextTurn();
  }
  return { sizeBytes, families };
}

/**
 * Like `knownStats`, but counts the entries if an engine only estimates. It counts page by page while other
 * work continues.
 */
export async function countedStats(
  stores: readonly Store[],
  entriesMax = Infinity,
): Promise<{ sizeBytes: number; families: Map<string, FamilyStats> }> {
  const { sizeBytes, families } = await knownStats(stores);
  for (const [family, { estimated }] of families)
    if (estimated) families.set(family, await countFamily(stores, family, entriesMax));
  return { sizeBytes, families };
}

async function countFamily(
  stores: readonly Store[],
  family: string,
  entriesMax: number,
): Promise<FamilyStats> {
  const counted: FamilyStats = { entries: 0, sizeBytes: 0, estimated: false };
  for (const store of stores) {
    for (let after: Buffer | undefined, isMore = true; isMore;) {
      isMore = false;
      const turnEndsAtBytes = counted.sizeBytes + bytesPerTurn;
      for (const { key, value } of store.range(family, {
        ...(after && { gt: after }),
        limit: entriesPerTurn,
      })) {
        counted.entries += 1;
        counted.sizeBytes += key.length + value.length;
        after = Buffer.from(key);
        isMore = true;
        if (counted.sizeBytes >= turnEndsAtBytes) break;
      }
      if (isMore && counted.entries >= entriesMax) return { ...counted, estimated: true };
      await nextTurn();
    }
  }
  return counted;
}

/** Finds a family by its full name, or by the part after the slash if only one family has it. */
export function familyNamed(stores: readonly Store[], name: string): string {
  // The redo log contains every value that was ever written, also deleted ones, so it cannot be inspected.
  const families = (stores[0]?.families ?? []).filter((family) => family !== kernelFamilies.redo);
  if (families.includes(name)) return name;
  const meant = families.filter((family) => family.endsWith(`/${name}`));
  if (meant.length === 1) return meant[0] as string;
  if (meant.length > 1) {
    throw new StoaError(
      'invalid_request',
      `The family name "${name}" is ambiguous. It matches ${meant.join(', ')}.`,
      { fix: 'Use the full name.' },
    );
  }
  throw new StoaError(
    'not_found',
    `Unknown family "${name}".${didYouMean(name, [...families, ...families.map((family) => family.split('/')[1] ?? family)])}`,
    { fix: 'Run "stoa inspect" for a list of all families.' },
  );
}

export interface InspectOptions {
  prefix: Buffer;
  limit: number;
  from?: InspectPosition | undefined;
  /** A row as its domain shows it, or undefined if no domain decodes it. */
  decode?: (family: string, key: Buffer, value: Buffer) => unknown;
  /** Whether the values of a family stay hidden. The part that the domain decodes is shown. */
  conceals?: (family: string) => boolean;
}

/** A page of entries in key order, shard by shard. It ends early with the entry that exceeds `pageBytesMax`. */
export async function inspectFamily(
  stores: readonly Store[],
  family: string,
  { prefix, limit, from, decode, conceals }: InspectOptions,
): Promise<InspectPage> {
  const isHidden = conceals?.(family) === true;
  const items: InspectedEntry[] = [];
  let last: InspectPosition | undefined;
  let sizeBytes = 0;
  let isMore = false;
  const { gte, ...bounds } = prefixRange(prefix);
  for (let shard = from?.shard ?? 0; shard < stores.length; shard += 1) {
    const start =
      from?.shard === shard ? { gt: from.after } : gte !== undefined && gte.length > 0 ? { gte } : {};
    await walk(stores[shard] as Store, family, { ...bounds, ...start }, ({ key, value }) => {
      isMore = items.length === limit || sizeBytes >= pageBytesMax;
      if (isMore) return false;
      items.push({
        key: key.toString('hex'),
        value: isHidden ? '' : value.toString('hex'),
        decoded: decodedOf(family, key, value, decode),
      });
      sizeBytes += key.length + value.length;
      last = { shard, after: key };
      return true;
    });
    if (isMore) return { items, next: last };
  }
  return { items, next: undefined };
}

/** A row that its domain cannot read is shown as bytes, because inspection is for such rows. */
function decodedOf(family: string, key: Buffer, value: Buffer, decode: InspectOptions['decode']): unknown {
  try {
    const known = decode?.(family, key, value);
    return known === undefined ? decodeValue(value) : plain(known);
  } catch {
    return null;
  }
}

/** Families keep JSON, CBOR or bare bytes; bytes that happen to be a CBOR number are still bytes. */
function decodeValue(value: Buffer): unknown {
  if (value[0] === 0x7b || value[0] === 0x5b || value[0] === 0x22) {
    try {
      return JSON.parse(value.toString()) as unknown;
    } catch {
      return null;
    }
  }
  const major = (value[0] ?? 0) >> 5;
  if (major < 3 || major > 5) return null;
  try {
    return plain(cbor.decode(value) as unknown);
  } catch {
    return null;
  }
}

/** CBOR has 64-bit numbers and bytes, which JSON does not have. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint')
    return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]));
  return value === undefined ? null : value;
}
