/** Encrypts and decrypts single secrets with AES-256-GCM. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { StoaError } from '../core/errors.js';
import type { KeyRing } from './key-ring.js';

const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
const sealedPattern = /^enc:v1:([0-9a-f]+):([A-Za-z0-9_-]+)$/;

/** How every secret begins that is encrypted with the key. */
export function sealedStart(keyId: string): string {
  return `enc:v1:${keyId}:`;
}

/** Shown in answers instead of a secret. */
export const secretMask = '********';

export class Sealer {
  readonly ring: KeyRing;

  constructor(ring: KeyRing) {
    this.ring = ring;
  }

  /**
   * `enc:v1:{key id}:{nonce, tag and ciphertext in base64url}`. It opens only with the same associated text:
   * the record's id.
   */
  seal(secret: string, associated: string): string {
    const keyId = this.ring.currentId;
    const nonce = randomBytes(nonceBytes);
    const encryption = createCipheriv(cipher, this.ring.key(keyId), nonce);
    encryption.setAAD(Buffer.from(associated));
    const ciphertext = Buffer.concat([encryption.update(secret, 'utf8'), encryption.final()]);
    return `${sealedStart(keyId)}${Buffer.concat([nonce, encryption.getAuthTag(), ciphertext]).toString('base64url')}`;
  }

  /** The secret. Throws if it was altered, moved to another record, or its key is missing. */
  open(sealed: string, associated: string): string {
    const [, keyId, encoded] = sealedPattern.exec(sealed) ?? [];
    const bytes = Buffer.from(encoded ?? '', 'base64url');
    if (keyId === undefined || bytes.length < nonceBytes + tagBytes) throw damaged();
    const decryption = createDecipheriv(cipher, this.ring.key(keyId), bytes.subarray(0, nonceBytes));
    decryption.setAAD(Buffer.from(associated));
    decryption.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
    try {
      return Buffer.concat([
        decryption.update(bytes.subarray(nonceBytes + tagBytes)),
        decryption.final(),
      ]).toString('utf8');
    } catch (error) {
      throw damaged(error);
    }
  }

  /** True if the secret is not encrypted with the current key. */
  isStale(sealed: string): boolean {
    return sealedPattern.exec(sealed)?.[1] !== this.ring.currentId;
  }

  /** The same secret under the current key. */
  reseal(sealed: string, associated: string): string {
    return this.isStale(sealed) ? this.seal(this.open(sealed, associated), associated) : sealed;
  }
}

function damaged(cause?: unknown): StoaError {
  return new StoaError('damaged_data', 'A stored secret was altered or belongs to another record.', {
    fix: 'Set the secret again.',
    cause,
  });
}
