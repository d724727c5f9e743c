/** The functions of sodium-native that signatures need, with types that the package does not include. */
import { createRequire } from 'node:module';

interface Sodium {
  crypto_sign_verify_detached(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean;
  crypto_sign_detached(signature: Uint8Array, message: Uint8Array, secretKey: Uint8Array): void;
  crypto_sign_seed_keypair(publicKey: Uint8Array, secretKey: Uint8Array, seed: Uint8Array): void;
  crypto_core_ed25519_is_valid_point(point: Uint8Array): boolean;
}

// The package is CommonJS without declarations: these are the functions of its documentation.
export const sodium = createRequire(import.meta.url)('sodium-native') as Sodium;
