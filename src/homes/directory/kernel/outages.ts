/** Outages: times in which no server ran, and in which leases must not expire. */
import type { Outage } from '../../../core/outages.js';
import type { WriteOperation } from './engine.js';
import { kernelFamilies } from './families.js';
import { readNewest } from './feed/newest-transaction.js';
import type { Store } from './store.js';
import type { Reader } from './transaction.js';

/** No lease that can still be alive depends on older outages. */
const outagesKept = 64;
/** A shorter restart is not an outage. */
const shortestMs = 100;

const closedAtKey = Buffer.from('closed_at_ms');
const outagesKey = Buffer.from('outages');

/** The records that leases need after a move to other shards. */
export const outageNotes: readonly Buffer[] = [outagesKey, closedAtKey];

/** Records the time until which the store was in use. */
export function closedMark(atMs: number): WriteOperation & { value: Buffer } {
  return { family: kernelFamilies.meta, key: closedAtKey, value: Buffer.from(String(atMs)) };
}

export function outagesMark(outages: readonly Outage[]): WriteOperation & { value: Buffer } {
  return { family: kernelFamilies.meta, key: outagesKey, value: Buffer.from(JSON.stringify(outages)) };
}

export function readOutages(store: Reader): readonly Outage[] {
  const value = store.get(kernelFamilies.meta, outagesKey);
  return value === undefined ? [] : (JSON.parse(value.toString()) as Outage[]);
}

/**
 * The last sign of life: a clean close, the moment that a restore reached, the newest transaction, or the
 * lock that the owner touched. Zero for a new directory.
 */
export function lastAliveMs(stores: readonly Store[], lockTouchedMs: number): number {
  let latest = lockTouchedMs;
  for (const store of stores) {
    const closed = store.get(kernelFamilies.meta, closedAtKey);
    if (closed !== undefined) latest = Math.max(latest, Number(closed));
    latest = Math.max(latest, readNewest(store).atMs);
  }
  return latest;
}

export function outagesWith(known: readonly Outage[], outage: Outage): readonly Outage[] {
  if (outage.toMs - outage.fromMs < shortestMs) return known;
  return [...known, outage].slice(-outagesKept);
}
