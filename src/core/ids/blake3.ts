/** BLAKE3 over byte strings. The WebAssembly is compiled once, when the module is loaded. */
import { createBLAKE3 } from 'hash-wasm';

const hasher = await createBLAKE3();

/** The 32-byte hash of the parts joined. */
export function blake3(...parts: readonly Uint8Array[]): Buffer {
  hasher.init();
  for (const part of parts) hasher.update(part);
  return Buffer.from(hasher.digest('binary'));
}
