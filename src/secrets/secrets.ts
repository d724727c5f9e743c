/**
 * All secrets of a data directory: the key ring, the sealer, and re-keying of all holders of sealed secrets.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KeyQueue } from '../core/waiting/key-queue.js';
import { readIfThere, writeDurably } from '../core/files.js';
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

export async function openSecrets({ dataDir, environment }: SecretsOptions): Promise<Secrets> {
  const file = dataDir === null ? null : join(dataDir, keyFileName);
  const mark = dataDir === null ? null : fileMark(join(dataDir, markName));
  return new Secrets(await openKeyRing({ file, environment }), mark);
}

/** Contains the id of the key of a running re-keying, so that the next start continues it. */
export interface RekeyMark {
  read(): Promise<string | undefined>;
  write(keyId: string): Promise<void>;
  /** A later re-keying may have begun meanwhile: its mark stays. */
  clear(keyId: string): Promise<void>;
}

function fileMark(path: string): RekeyMark {
  // Without the file, no re-keying is under way.
  const read = (): Promise<string | undefined> => readIfThere(path);
  return {
    read,
    write: (keyId) => writeDurably(path, keyId),
    clear: async (keyId) => {
      if ((await read()) === keyId) await rm(path, { force: true });
    },
  };
}

export class Secrets {
  readonly ring: KeyRing;
  readonly sealer: Sealer;
  readonly #holders: SecretHolder[] = [];
  /** Null for a store without files. */
  readonly #mark: RekeyMark | null;
  readonly #beforeRekey: (keyId: string) => Promise<void>;
  readonly #closing = new AbortController();
  readonly #queue = new KeyQueue();
  #resuming: Promise<void> = Promise.resolve();

  /** `beforeRekey` refuses a key that not every server has. */
  constructor(
    ring: KeyRing,
    mark: RekeyMark | null,
    beforeRekey: (keyId: string) => Promise<void> = async () => undefined,
  ) {
    this.ring = ring;
    this.#mark = mark;
    this.#beforeRekey = beforeRekey;
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
    await this.#beforeRekey(keyId);
    await this.#mark?.write(keyId);
    const resealed: Record<string, number> = {};
    for (const holder of this.#holders)
      resealed[holder.name] = await holder.reseal(
        (count) => onProgress(holder.name, count),
        this.#closing.signal,
      );
    await this.#mark?.clear(keyId);
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
    if ((await this.#mark?.read()) !== keyId) return;
    for (const holder of this.#holders) {
      // The re-keying may have been interrupted before its holder recorded it.
      if (holder.begin === undefined) await holder.reseal(() => undefined, this.#closing.signal);
      else await holder.begin();
    }
    await this.#mark?.clear(keyId);
  }
}
