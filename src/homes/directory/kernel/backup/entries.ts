/** A page of one family's entries as a frame of a full backup. */
import { StoaError } from '../../../../core/errors.js';
import type { Entry } from '../engine.js';

export function encodeEntries(family: string, entries: readonly Entry[]): Buffer {
  const name = Buffer.from(family);
  const size = entries.reduce(
    (sum, { key, value }) => sum + 6 + key.length + value.length,
    1 + name.length + 4,
  );
  const frame = Buffer.allocUnsafe(size);
  let at = frame.writeUInt8(name.length, 0);
  at += name.copy(frame, at);
  at = frame.writeUInt32BE(entries.length, at);
  for (const { key, value } of entries) {
    at = frame.writeUInt16BE(key.length, at);
    at += key.copy(frame, at);
    at = frame.writeUInt32BE(value.length, at);
    at += value.copy(frame, at);
  }
  return frame;
}

export function decodeEntries(frame: Buffer): { family: string; entries: Entry[] } {
  let at = 1 + frame.readUInt8(0);
  const family = frame.toString('utf8', 1, at);
  const count = frame.readUInt32BE(at);
  at += 4;
  const entries: Entry[] = [];
  for (let index = 0; index < count; index += 1) {
    const keyEnd = at + 2 + frame.readUInt16BE(at);
    const key = frame.subarray(at + 2, keyEnd);
    const valueEnd = keyEnd + 4 + frame.readUInt32BE(keyEnd);
    entries.push({ key, value: frame.subarray(keyEnd + 4, valueEnd) });
    at = valueEnd;
  }
  // `subarray` shortens silently, so a wrong length shows only here.
  if (at !== frame.length)
    throw new StoaError(
      'damaged_backup',
      `A frame of ${family} has ${frame.length} bytes, but its entries take ${at}.`,
    );
  return { family, entries };
}
