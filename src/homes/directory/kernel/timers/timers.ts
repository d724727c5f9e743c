/** The keys of timers: a family ordered by time. */
import type { Timer } from '../transaction.js';

/** Time, kind, a zero byte, reference: the family is in order of time. */
export function timerKey({ atMs, kind, reference }: Timer): Buffer {
  const key = Buffer.allocUnsafe(8 + kind.length + 1 + reference.length);
  const time = Math.max(0, Math.floor(atMs));
  // Written as two halves: a BigInt would need an allocation for each timer, and every time is below 2^53.
  key.writeUInt32BE(Math.floor(time / 0x1_0000_0000), 0);
  key.writeUInt32BE(time >>> 0, 4);
  key.write(kind, 8, 'latin1');
  key[8 + kind.length] = 0;
  reference.copy(key, 8 + kind.length + 1);
  return key;
}

export function timerOf(key: Buffer): Timer {
  const end = key.indexOf(0, 8);
  return {
    atMs: Number(key.readBigUInt64BE(0)),
    kind: key.toString('latin1', 8, end),
    reference: key.subarray(end + 1),
  };
}
