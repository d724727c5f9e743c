/** A scan over the engine and the writes above it, as if they were one ordered map. */
import type { Engine, Entry, RangeOptions, WriteOperation } from './engine.js';
import { type Overlay, type OverlayCursor, overlayKey } from './overlay.js';

/** `layers` are newest first: the first that has a key decides about it. */
export function mergedRange(engine: Engine, layers: readonly Overlay[], family: string, familyNumber: number, options: RangeOptions): Iterable<Entry> {
  const reverse = options.reverse === true;
  const { from, to } = overlayBounds(familyNumber, options);
  const cursors = layers.filter((layer) => layer.size > 0).map((layer) => layer.cursor(from, to, reverse));
  const busy = cursors.filter((cursor) => cursor.key !== undefined);
  if (busy.length === 0) return engine.range(family, options);
  return merge(engine.range(family, { ...options, limit: undefined }), busy, familyNumber, reverse, options.limit ?? Infinity);
}

function* merge(stored: Iterable<Entry>, cursors: readonly OverlayCursor[], familyNumber: number, reverse: boolean, limit: number): Generator<Entry> {
  const iterator = stored[Symbol.iterator]();
  const comesBefore = reverse ? (a: string, b: string) => a > b : (a: string, b: string) => a < b;
  let current = iterator.next();
  let currentKey = current.done === true ? undefined : overlayKey(familyNumber, current.value.key);
  let left = limit;
  try {
    while (left > 0) {
      let key = currentKey;
      for (const cursor of cursors) {
        if (cursor.key !== undefined && (key === undefined || comesBefore(cursor.key, key))) key = cursor.key;
      }
      if (key === undefined) return;
      const pending = takePending(cursors, key);
      let entry: Entry | undefined = pending?.value === undefined ? undefined : { key: pending.key, value: pending.value };
      if (key === currentKey && current.done !== true) {
        if (pending === undefined) entry = current.value;
        current = iterator.next();
        currentKey = current.done === true ? undefined : overlayKey(familyNumber, current.value.key);
      }
      if (entry === undefined) continue;
      left -= 1;
      yield entry;
    }
  } finally {
    iterator.return?.();
  }
}

/** Moves every cursor past `key` and answers what the newest layer says of it. */
function takePending(cursors: readonly OverlayCursor[], key: string): WriteOperation | undefined {
  let newest: WriteOperation | undefined;
  for (const cursor of cursors) {
    if (cursor.key !== key) continue;
    newest ??= cursor.operation;
    cursor.advance();
  }
  return newest;
}

/** The bounds as half-open overlay keys. Appending a zero byte steps just past a key. */
function overlayBounds(familyNumber: number, { gte, gt, lt, lte }: RangeOptions): { from: string; to: string } {
  let from = String.fromCharCode(familyNumber);
  if (gte !== undefined) from = overlayKey(familyNumber, gte);
  else if (gt !== undefined) from = `${overlayKey(familyNumber, gt)}\0`;
  let to = String.fromCharCode(familyNumber + 1);
  if (lt !== undefined) to = overlayKey(familyNumber, lt);
  else if (lte !== undefined) to = `${overlayKey(familyNumber, lte)}\0`;
  return { from, to };
}
