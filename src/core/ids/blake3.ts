/** BLAKE3 over byte strings. */
import { blake3 as hash } from '@noble/hashes/blake3.js';

/** The 32-byte hash of the parts joined. */
export function blake3(...parts: readonly Uint8Array[]): Buffer {
  const bytes = parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts);
  return Buffer.from(hash(bytes).buffer);
}
