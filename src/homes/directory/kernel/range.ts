/** A scan over the engine and the writes above it, as if they were one ordered map. */
import type { Engine, Entry, RangeOptions, WriteOperation } from './engine.js';
import { type FamilyWrites, type OverlayCursor, overlayKey } from './overlay.js';

export interface MergedRange {
  engine: Engine;
  /**
   * The pending writes of the family when the scan starts, newest layer first. The first layer that has a key
   * decides.
   */
  layers: () => readonly (FamilyWrites | undefined)[];
  family: string;
  options: RangeOptions;
  /** Throws once the transaction is over, because the scan could then mix two states. */
  checkOpen: () => void;
}

/** The state at the moment when the scan starts. Later writes are not seen. */
export function mergedRange(range: MergedRange): Iterable<Entry> {
  const { engine, family, options } = range;
  // Checked here, not when the scan starts, so that the error points to the call with the wrong bounds.
  const stored = engine.range(family, options);
  return {
    [Symbol.iterator]: () => {
      range.checkOpen();
      const cursors = cursorsOf(range);
      if (cursors.length === 0) return openOnly(stored, range.checkOpen);
      return merge(engine.range(family, { ...options, limit: undefined }), cursors, range);
    },
  };
}

function cursorsOf({ layers, options }: MergedRange): OverlayCursor[] {
  const { from, to } = overlayBounds(options);
  const cursors: OverlayCursor[] = [];
  for (const layer of layers()) {
    const cursor = layer?.cursor(from, to, options.reverse === true);
    if (cursor?.key !== undefined) cursors.push(cursor);
  }
  return cursors;
}

function* openOnly(stored: Iterable<Entry>, checkOpen: () => void): Generator<Entry> {
  for (const entry of stored) {
    yield entry;
    checkOpen();
  }
}

function* merge(
  stored: Iterable<Entry>,
  cursors: readonly OverlayCursor[],
  { options, checkOpen }: MergedRange,
): Generator<Entry> {
  const iterator = stored[Symbol.iterator]();
  const comesBefore =
    options.reverse === true ? (a: string, b: string) => a > b : (a: string, b: string) => a < b;
  let current = iterator.next();
  let currentKey = current.done === true ? undefined : overlayKey(current.value.key);
  let left = options.limit ?? Infinity;
  try {
    while (left > 0) {
      let key = currentKey;
      for (const cursor of cursors) {
        if (cursor.key !== undefined && (key === undefined || comesBefore(cursor.key, key))) key = cursor.key;
      }
      if (key === undefined) return;
      const pending = takePending(cursors, key);
      let entry: Entry | undefined =
        pending?.value === undefined ? undefined : { key: pending.key, value: pending.value };
      if (key === currentKey && current.done !== true) {
        if (pending === undefined) entry = current.value;
        current = iterator.next();
        currentKey = current.done === true ? undefined : overlayKey(current.value.key);
      }
      if (entry === undefined) continue;
      left -= 1;
      yield entry;
      checkOpen();
    }
  } finally {
    iterator.return?.();
  }
}

/** Moves every cursor past `key` and returns the value of the newest layer. */
function takePending(cursors: readonly OverlayCursor[], key: string): WriteOperation | undefined {
  let newest: WriteOperation | undefined;
  for (const cursor of cursors) {
    if (cursor.key !== key) continue;
    newest ??= cursor.operation;
    cursor.advance();
  }
  return newest;
}

/** The bounds as half-open overlay keys. A key with a zero byte appended is the next possible key. */
function overlayBounds({ gte, gt, lt, lte }: RangeOptions): { from: string; to: string | undefined } {
  let from = '';
  if (gte !== undefined) from = overlayKey(gte);
  else if (gt !== undefined) from = `${overlayKey(gt)}\0`;
  let to: string | undefined;
  if (lt !== undefined) to = overlayKey(lt);
  else if (lte !== undefined) to = `${overlayKey(lte)}\0`;
  return { from, to };
}
