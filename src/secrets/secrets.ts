/**
 * All secrets of a data directory: the key ring, the sealer, and re-keying of all holders of sealed secrets.
 */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KeyQueue } from '../core/waiting/key-queue.js';
import { writeDurably } from '../core/files.js';
import { type KeyRing, openKeyRing } from './key-ring.js';
import { Sealer } from './sealer.js';

/** In the data directory, beside the databases and never in one. */
export const keyFileName = 'secret.keys';
/** This file exists while a re-keying runs, and contains the id of its key. */
const markName = 'secret.rekeying';

/** A store of sealed secrets. */
export interface SecretHolder {
  /** For the report and the progress bar. */
  name: string;
  /**
   * Re-encrypts every secret with the current key in limited steps, until the signal is aborted. Returns the
   * number of changed records.
   */
  reseal(onProgress: (resealed: number) => void, signal: AbortSignal): Promise<number>;
  /** For a holder that re-encrypts in the background: records that all secrets must have the current key. */
  begin?(): Promise<void>;
}

export interface RekeyReport {
  key_id: string;
  resealed: Record<string, number>;
}

export interface SecretsOptions {
  /** Null for a store without files: the keys are then only in memory. */
  dataDir: string | null;
  /** `STOA_SECRET_KEYS`. */
  environment?: string | undefined;
}

export async function openSecrets(options: SecretsOptions): Promise<Secrets> {
  const fileOf = (name: string) => (options.dataDir === null ? null : join(options.dataDir, name));
  return new Secrets(
    await openKeyRing({ file: fileOf(keyFileName), environment: options.environment }),
    fileOf(markName),
  );
}

export class Secrets {
  readonly ring: KeyRing;
  readonly sealer: Sealer;
  readonly #holders: SecretHolder[] = [];
  /** Null for a store without files. */
  readonly #markFile: string | null;
  readonly #closing = new AbortController();
  readonly #queue = new KeyQueue();
  #resuming: Promise<void> = Promise.resolve();

  constructor(ring: KeyRing, markFile: string | null) {
    this.ring = ring;
    this.#markFile = markFile;
    this.sealer = new Sealer(ring);
  }

  /** Adds a holder to re-keying. */
  addHolder(holder: SecretHolder): void {
    this.#holders.push(holder);
  }

  /**
   * Creates a new key and re-encrypts every secret with it. If the keys come from the environment, every
   * secret is re-encrypted with the first of them. A second call waits until the first is done.
   */
  rekey(onProgress: (holder: string, resealed: number) => void = () => undefined): Promise<RekeyReport> {
    return this.#queue.run('rekey', () => this.#rekey(onProgress));
  }

  async #rekey(onProgress: (holder: string, resealed: number) => void): Promise<RekeyReport> {
    await this.#resuming;
    if (this.ring.canAddKey) await this.ring.addKey();
    const keyId = this.ring.currentId;
    if (this.#markFile !== null) await writeDurably(this.#markFile, keyId);
    const resealed: Record<string, number> = {};
    for (const holder of this.#holders)
      resealed[holder.name] = await holder.reseal(
        (count) => onProgress(holder.name, count),
        this.#closing.signal,
      );
    await this.#unmark(keyId);
    return { key_id: keyId, resealed };
  }

  /** Continues a re-keying that was interrupted. Secrets that already have the key are not changed. */
  resume(onError: (error: unknown, about: string) => void): void {
    this.#resuming = this.#resume().catch((error: unknown) => {
      if (!this.#closing.signal.aborted)
        onError(error, 'continuing an interrupted re-keying; the next start tries again');
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#resuming;
  }

  async #resume(): Promise<void> {
    const keyId = this.ring.currentId;
    // If another key is first by now, its re-encryption was not requested.
    if ((await this.#markedKey()) !== keyId) return;
    for (const holder of this.#holders) {
      // The re-keying may have been interrupted before its holder recorded it.
      if (holder.begin === undefined) await holder.reseal(() => undefined, this.#closing.signal);
      else await holder.begin();
    }
    await this.#unmark(keyId);
  }

  async #markedKey(): Promise<string | undefined> {
    if (this.#markFile === null) return undefined;
    try {
      return await readFile(this.#markFile, 'utf8');
    } catch (error) {
      // A node:fs error carries a code; without the file no re-keying is under way.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** A later re-keying may have started in the meantime, and has written its own mark. */
  async #unmark(keyId: string): Promise<void> {
    if (this.#markFile !== null && (await this.#markedKey()) === keyId)
      await rm(this.#markFile, { force: true });
  }
}
