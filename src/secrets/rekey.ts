/** Re-keying: a new key, then every stored secret under it, domain by domain. */
import type { KeyRing } from './key-ring.js';

/** What holds sealed secrets. */
export interface SecretHolder {
  name: string;
  /** Puts every secret under the current key in bounded steps; a repeat goes on where it stopped. Answers how many changed. */
  reseal(onProgress: (resealed: number) => void): Promise<number>;
}

export interface RekeyReport {
  key_id: string;
  resealed: Record<string, number>;
}

export class Rekeying {
  readonly #ring: KeyRing;
  readonly #holders: readonly SecretHolder[];

  constructor(ring: KeyRing, holders: readonly SecretHolder[]) {
    this.#ring = ring;
    this.#holders = holders;
  }

  /** Keys from the environment are not made here: then it re-encrypts with the first of them. */
  async run(onProgress: (holder: string, resealed: number) => void = () => undefined): Promise<RekeyReport> {
    if (this.#ring.canAddKey) await this.#ring.addKey();
    const resealed: Record<string, number> = {};
    for (const holder of this.#holders) resealed[holder.name] = await holder.reseal((count) => onProgress(holder.name, count));
    return { key_id: this.#ring.currentId, resealed };
  }
}
