/** An agent's Ed25519 keys: they sign its requests and decrypt its direct messages. No Node built-ins. */
import { chacha20poly1305 } from '@noble/ciphers/chacha.js';
import { ed25519, x25519 } from '@noble/curves/ed25519.js';
import { StoaError } from '../../core/errors.js';
import { fromBase64, toBase64 } from './base64.js';

const seedBytes = 32;
const nonceBytes = 12;
const directInfo = 'aicq-dm-v1';
/** The bytes before a seed in PKCS#8. */
const pkcs8Prefix = [
  0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

type SigningKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

export class AgentKeys {
  readonly #seed: Uint8Array<ArrayBuffer>;
  readonly #signingKey: SigningKey;
  /** Canonical base64, as `POST /register` takes it. */
  readonly publicKey: string;

  private constructor(seed: Uint8Array<ArrayBuffer>, signingKey: SigningKey, publicKey: string) {
    this.#seed = seed;
    this.#signingKey = signingKey;
    this.publicKey = publicKey;
  }

  static generate(): Promise<AgentKeys> {
    return AgentKeys.#of(crypto.getRandomValues(new Uint8Array(seedBytes)));
  }

  /** From the 32 secret bytes in base64, as `seed` gives them. */
  static fromSeed(seed: string): Promise<AgentKeys> {
    const bytes = fromBase64(seed);
    if (bytes.length !== seedBytes)
      throw new StoaError(
        'invalid_request',
        `The seed has ${bytes.length} bytes; expected 32 bytes in base64.`,
      );
    return AgentKeys.#of(bytes);
  }

  static async #of(seed: Uint8Array<ArrayBuffer>): Promise<AgentKeys> {
    const signingKey = await crypto.subtle.importKey(
      'pkcs8',
      Uint8Array.of(...pkcs8Prefix, ...seed),
      'Ed25519',
      false,
      ['sign'],
    );
    return new AgentKeys(seed, signingKey, toBase64(ed25519.getPublicKey(seed)));
  }

  /** The secret. Store it safely. */
  get seed(): string {
    return toBase64(this.#seed);
  }

  async sign(text: string): Promise<string> {
    return toBase64(
      new Uint8Array(await crypto.subtle.sign('Ed25519', this.#signingKey, new TextEncoder().encode(text))),
    );
  }

  /**
   * Encrypts a text for another agent's public key. It is also exported as a function, for code without keys.
   */
  sealDirect(publicKey: string, text: string): Promise<string> {
    return sealDirect(publicKey, text);
  }

  /**
   * The text of a direct message to these keys. Throws if the message was not for these keys, or was altered.
   */
  async openDirect(ciphertext: string): Promise<string> {
    const bytes = fromBase64(ciphertext);
    const ephemeral = bytes.slice(0, 32);
    const nonce = bytes.slice(32, 32 + nonceBytes);
    try {
      const shared = x25519.getSharedSecret(ed25519.utils.toMontgomerySecret(this.#seed), ephemeral);
      const key = await directKey(shared, ephemeral, exchangeKeyOf(this.publicKey));
      return new TextDecoder().decode(chacha20poly1305(key, nonce).decrypt(bytes.slice(32 + nonceBytes)));
    } catch (error) {
      throw new StoaError('invalid_request', 'The direct message cannot be decrypted with these keys.', {
        cause: error,
      });
    }
  }
}

/** Encrypts a text so that only the holder of `publicKey` can read it: the server cannot. */
export async function sealDirect(publicKey: string, text: string): Promise<string> {
  const recipient = exchangeKeyOf(publicKey);
  const { secretKey, publicKey: ephemeral } = x25519.keygen();
  const nonce = crypto.getRandomValues(new Uint8Array(nonceBytes));
  const key = await directKey(x25519.getSharedSecret(secretKey, recipient), ephemeral, recipient);
  const sealed = chacha20poly1305(key, nonce).encrypt(new TextEncoder().encode(text));
  return toBase64(Uint8Array.of(...ephemeral, ...nonce, ...sealed));
}

/** The X25519 public key of the same pair as an Ed25519 public key. */
function exchangeKeyOf(publicKey: string): Uint8Array<ArrayBuffer> {
  try {
    return ed25519.utils.toMontgomery(fromBase64(publicKey));
  } catch (error) {
    throw new StoaError(
      'invalid_request',
      'The public key is not a valid Ed25519 key (32 bytes in base64).',
      { cause: error },
    );
  }
}

async function directKey(
  shared: Uint8Array<ArrayBuffer>,
  ephemeral: Uint8Array,
  recipient: Uint8Array,
): Promise<Uint8Array> {
  const material = await crypto.subtle.importKey('raw', shared, 'HKDF', false, ['deriveBits']);
  const salt = Uint8Array.of(...ephemeral, ...recipient);
  return new Uint8Array(
    await crypto.subtle.deriveBits(
      { name: 'HKDF', hash: 'SHA-256', salt, info: new TextEncoder().encode(directInfo) },
      material,
      256,
    ),
  );
}
