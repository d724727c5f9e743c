/**
 * Ed25519 for the server. libsodium verifies twice as fast as Node (14,000 signatures a second instead of
 * 7,000 on one core); its package is optional because it has 18 MB. Both accept the same keys and signatures.
 */
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { createRequire } from 'node:module';
import { ed25519 } from '@noble/curves/ed25519.js';

const keyBytes = 32;
const signatureBytes = 64;

export interface Ed25519 {
  /** The key must be a valid one. */
  verify(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean;
  /** The secret key is the seed and the public key. */
  sign(message: Uint8Array, secretKey: Uint8Array): Buffer;
  publicKeyOf(seed: Uint8Array): Buffer;
  /** False for points off the curve, of small order, outside the main subgroup, and for second spellings. */
  isValidKey(publicKey: Uint8Array): boolean;
}

/** The functions of sodium-native that are used; the package has no declarations. */
interface Sodium {
  crypto_sign_verify_detached(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean;
  crypto_sign_detached(signature: Uint8Array, message: Uint8Array, secretKey: Uint8Array): void;
  crypto_sign_seed_keypair(publicKey: Uint8Array, secretKey: Uint8Array, seed: Uint8Array): void;
  crypto_core_ed25519_is_valid_point(point: Uint8Array): boolean;
}

/** Undefined if the package is not installed. */
export function sodiumEd25519(): Ed25519 | undefined {
  const sodium = loadSodium();
  return sodium === undefined
    ? undefined
    : {
        verify: (signature, message, publicKey) =>
          sodium.crypto_sign_verify_detached(signature, message, publicKey),
        sign: (message, secretKey) => {
          const signature = Buffer.alloc(signatureBytes);
          sodium.crypto_sign_detached(signature, message, secretKey);
          return signature;
        },
        publicKeyOf: (seed) => {
          const publicKey = Buffer.alloc(keyBytes);
          sodium.crypto_sign_seed_keypair(publicKey, Buffer.alloc(2 * keyBytes), seed);
          return publicKey;
        },
        isValidKey: (publicKey) => sodium.crypto_core_ed25519_is_valid_point(publicKey),
      };
}

/** Where the package is; undefined if it is not installed. */
export function sodiumPath(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve('sodium-native');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

function loadSodium(): Sodium | undefined {
  const path = sodiumPath();
  // The package is CommonJS without declarations: these are the functions of its documentation.
  return path === undefined ? undefined : (createRequire(import.meta.url)(path) as Sodium);
}

/** What stands before the 32 bytes of a key in DER. */
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex');
const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex');
/**
 * As the first half of a signature: libsodium refuses points of small order there, and this is the only one
 * that verifies.
 */
const neutralPoint = Buffer.from('01'.padEnd(2 * keyBytes, '0'), 'hex');

export const nodeEd25519: Ed25519 = {
  verify: (signature, message, publicKey) =>
    !neutralPoint.equals(signature.subarray(0, keyBytes)) &&
    verify(
      null,
      message,
      { key: Buffer.concat([publicPrefix, publicKey]), format: 'der', type: 'spki' },
      signature,
    ),
  sign: (message, secretKey) => sign(null, message, privateKeyOf(secretKey.subarray(0, keyBytes))),
  publicKeyOf: (seed) =>
    createPublicKey(createPrivateKey(privateKeyOf(seed)))
      .export({ format: 'der', type: 'spki' })
      .subarray(publicPrefix.length),
  isValidKey: (publicKey) => {
    try {
      const point = ed25519.Point.fromBytes(publicKey);
      return !point.isSmallOrder() && point.isTorsionFree();
    } catch {
      // Noble throws for bytes that are not a point.
      return false;
    }
  },
};

function privateKeyOf(seed: Uint8Array) {
  return { key: Buffer.concat([privatePrefix, seed]), format: 'der', type: 'pkcs8' } as const;
}
