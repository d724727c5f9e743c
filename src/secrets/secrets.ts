/** All secrets of a data directory: the key ring, the sealer, and re-keying of everybody who holds sealed texts. */
import { join } from 'node:path';
import { type KeyRing, openKeyRing } from './key-ring.js';
import { Sealer } from './sealer.js';

/** In the data directory, beside the databases and never in one. */
export const keyFileName = 'secret.keys';

/** What holds sealed secrets. */
export interface SecretHolder {
  /** For the report and the progress bar. */
  name: string;
  /** Puts every secret under the current key in bounded steps. Answers how many records changed. */
  reseal(onProgress: (resealed: number) => void): Promise<number>;
}

export interface RekeyReport {
  key_id: string;
  resealed: Record<string, number>;
}

export interface SecretsOptions {
  /** Null for a store that keeps nothing: then the keys live in memory only. */
  dataDir: string | null;
  /** `STOA_SECRET_KEYS`. */
  environment?: string | undefined;
}

export async function openSecrets(options: SecretsOptions): Promise<Secrets> {
  const file = options.dataDir === null ? null : join(options.dataDir, keyFileName);
  return new Secrets(await openKeyRing({ file, environment: options.environment }));
}

export class Secrets {
  readonly ring: KeyRing;
  readonly sealer: Sealer;
  readonly #holders: SecretHolder[] = [];

  constructor(ring: KeyRing) {
    this.ring = ring;
    this.sealer = new Sealer(ring);
  }

  /** Joins in re-keying. */
  addHolder(holder: SecretHolder): void {
    this.#holders.push(holder);
  }

  /**
   * Makes a new key and puts every secret under it. Keys from the environment are not made here:
   * then everything goes under the first of them.
   */
  async rekey(onProgress: (holder: string, resealed: number) => void = () => undefined): Promise<RekeyReport> {
    if (this.ring.canAddKey) await this.ring.addKey();
    const resealed: Record<string, number> = {};
    for (const holder of this.#holders) resealed[holder.name] = await holder.reseal((count) => onProgress(holder.name, count));
    return { key_id: this.ring.currentId, resealed };
  }
}
