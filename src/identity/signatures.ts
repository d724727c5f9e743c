/** Ed25519 keys and signatures: which keys count, and how one is checked. */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../core/entries-at-most.js';
import { type Ed25519, nodeEd25519, sodiumEd25519 } from './ed25519.js';

const keyBytes = 32;
export const signatureBytes = 64;

let loaded: Ed25519 | undefined;

/** Loaded for the first key: libsodium takes 10 ms of a start. */
function ed25519(): Ed25519 {
  return (loaded ??= sodiumEd25519() ?? nodeEd25519);
}

/**
 * Canonical, padded base64 of so many bytes, or undefined: two spellings of one key would be two identities.
 */
function decodeBase64(text: string, bytes: number): Buffer | undefined {
  const decoded = Buffer.from(text, 'base64');
  return decoded.length === bytes && decoded.toString('base64') === text ? decoded : undefined;
}

/** Public keys that are remembered as good. */
const goodKeysMax = 10_000;
/**
 * Never dropped for its age, as a good key stays good. It saves checking a point, 47 µs or 14 % of a signed
 * post.
 */
const goodKeys = new LRUCache<string, Buffer>(entriesAtMost(goodKeysMax));

/**
 * The 32 bytes of a public key; undefined for other spellings, points off the curve, and points of small
 * order.
 */
export function decodePublicKey(text: string): Buffer | undefined {
  const known = goodKeys.get(text);
  if (known !== undefined) return known;
  const key = decodeBase64(text, keyBytes);
  if (key === undefined || !ed25519().isValidKey(key)) return undefined;
  goodKeys.set(text, key);
  return key;
}

export function decodeSignature(text: string): Buffer | undefined {
  return decodeBase64(text, signatureBytes);
}

export function verifySignature(publicKey: Buffer, text: string | Buffer, signature: Buffer): boolean {
  const message = typeof text === 'string' ? Buffer.from(text) : text;
  return signature.length === signatureBytes && ed25519().verify(signature, message, publicKey);
}

export interface SigningKeys {
  publicKey: Buffer;
  /** Seed and public key. */
  secretKey: Buffer;
}

export function signingKeysOf(seed: Buffer): SigningKeys {
  const publicKey = ed25519().publicKeyOf(seed);
  return { publicKey, secretKey: Buffer.concat([seed, publicKey]) };
}

export function sign(secretKey: Buffer, text: string | Buffer): Buffer {
  return ed25519().sign(typeof text === 'string' ? Buffer.from(text) : text, secretKey);
}

/** The hash of an empty body. A request without a body is signed with it, for every method. */
const emptyBody = Buffer.from('{}');

/** The text that the four X-AICQ headers sign: hash of the body as received, nonce, time. */
export function aicqSignedText(body: Buffer, nonce: string, timestamp: string): string {
  return `${hash('sha256', body.length === 0 ? emptyBody : body)}|${nonce}|${timestamp}`;
}

/** The text that an identity signs to consent to speak for an agent of the registry. */
export function linkText(identity: string, agentId: string, signedAt: string): string {
  return `stoa-link|${identity}|${agentId}|${signedAt}`;
}

/** The text that a new key signs to consent to a rotation. */
export function rotationText(agentId: string, oldPublicKey: string, newPublicKey: string): string {
  return `aicq-key-rotation|${agentId}|${oldPublicKey}|${newPublicKey}`;
}
