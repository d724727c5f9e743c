/**
 * What a side of a move holds, by type: a number of records and a hash that does not depend on their order.
 */
import type { Limits } from '../../core/settings/limits.js';
import { Slices } from '../../core/waiting/yielding.js';
import { SideSum } from '../../datastore/transfer/move.js';
import { retentionOf } from '../../messaging/rooms/visibility.js';
import type { MessageLine, RoomLine } from '../records/record-schemas.js';
import type { TransferRecord } from '../model.js';
import type { RecordPage } from '../port.js';
import type { MoveSide, MoveStore, MovedType } from './stores.js';

interface TypeSum {
  records: number;
  hash: string;
}

export type Sums<Type extends MovedType = MovedType> = Record<Type, TypeSum>;

/** A page is one transaction in the target. */
export const pageRecordsMax = 200;
const pageRecordsFirst = 20;
const pageBytes = 1024 * 1024;

/**
 * Whether a message is alive at a time; every other record is. The retention of a room is in its record,
 * which comes before its messages.
 */
export function livesOn(limits: Limits, atMs: number): (record: TransferRecord) => boolean {
  /** Only of rooms that differ from public rooms. */
  const roomSeconds = new Map<unknown, number>();
  return (record) => {
    const { type, id, roomId, tsMs, owner, retentionSeconds } = record as Partial<RoomLine & MessageLine>;
    if (record.type === 'messaging.room') {
      const seconds = retentionOf(
        { owner: owner ?? null, retentionSeconds: retentionSeconds ?? null },
        limits,
      );
      if (seconds !== limits.messageRetentionSeconds) roomSeconds.set(id, seconds);
    }
    if (record.type !== 'messaging.message' && record.type !== 'messaging.direct') return true;
    const seconds =
      type === 'messaging.message'
        ? (roomSeconds.get(roomId) ?? limits.messageRetentionSeconds)
        : limits.directRetentionSeconds;
    return Number(tsMs) + seconds * 1000 > atMs;
  };
}

export interface SumOptions {
  readonly onPage?: (type: MovedType, records: number) => void | Promise<void>;
  readonly isCounted?: (record: TransferRecord) => boolean;
}

export async function sumsOf<Type extends MovedType>(
  side: MoveSide,
  types: readonly Type[],
  { onPage = () => undefined, isCounted = () => true }: SumOptions,
): Promise<Sums<Type>> {
  const sums: Partial<Sums<Type>> = {};
  for (const type of types) {
    const sum = new SideSum();
    const store = side.stores[type];
    for await (const { records } of pagesOf(store, null)) {
      for (const record of records) if (isCounted(record)) sum.add(store.hashOf(record));
      await onPage(type, records.length);
    }
    const { documents: records, hash } = sum.side();
    sums[type] = { records, hash };
  }
  // Every type that was asked for has its sum.
  return sums as Sums<Type>;
}

/** Pages of about as many bytes, whatever the records are: one page is in memory at a time. */
export async function* pagesOf(
  store: Pick<MoveStore, 'page' | 'sizeOf'>,
  start: string | null,
): AsyncGenerator<RecordPage<TransferRecord>> {
  let after = start;
  let limit = pageRecordsFirst;
  const slices = new Slices();
  do {
    const page = await store.page(after, limit);
    yield page;
    after = page.after;
    const bytes = page.records.reduce((sum, record) => sum + store.sizeOf(record), 0);
    const fitting = bytes === 0 ? pageRecordsMax : Math.floor((page.records.length * pageBytes) / bytes);
    limit = Math.max(1, Math.min(fitting, 2 * limit, pageRecordsMax));
    // A directory answers synchronously, so timers and signals get a turn here.
    await slices.pause();
  } while (after !== null);
}
