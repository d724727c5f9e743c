/** Version 7 UUIDs. They grow with time, so that records made together are stored together. */
import { randomFillSync } from 'node:crypto';

const poolBytes = 4096;
const randomBytesEach = 8;
const pool = Buffer.alloc(poolBytes);
let poolAt = poolBytes;
let lastMs = 0;
let sequence = 0;

/** The 16 bytes of the next UUID. Within one process each UUID is greater than the previous one. */
function uuid7Bytes(nowMs: number = Date.now()): Buffer {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    sequence = 0;
  } else {
    sequence += 1;
    // The 12 bits are used up within this millisecond: borrow from the next one.
    if (sequence > 0xfff) {
      lastMs += 1;
      sequence = 0;
    }
  }
  if (poolAt + randomBytesEach > poolBytes) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeUIntBE(lastMs, 0, 6);
  bytes.writeUInt16BE(0x7000 | sequence, 6);
  pool.copy(bytes, 8, poolAt, poolAt + randomBytesEach);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  poolAt += randomBytesEach;
  return bytes;
}

/** The next UUID, hyphenated. */
export function uuid7(nowMs?: number): string {
  const hex = uuid7Bytes(nowMs).toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
