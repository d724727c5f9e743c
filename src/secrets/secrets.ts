/** All secrets of a data directory: the key ring, the sealer, and re-keying of everybody who holds sealed texts. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KeyQueue } from '../core/waiting/key-queue.js';
import { writeDurably } from '../core/files.js';
import { type KeyRing, openKeyRing } from './key-ring.js';
import { Sealer } from './sealer.js';

/** In the data directory, beside the databases and never in one. */
export const keyFileName = 'secret.keys';
/** There while a re-keying is under way: the id of its key. */
const markName = 'secret.rekeying';

/** What holds sealed secrets. */
export interface SecretHolder {
  /** For the report and the progress bar. */
  name: string;
  /** Puts every secret under the current key in bounded steps, unless the signal ends it. Answers how many records changed. */
  reseal(onProgress: (resealed: number) => void, signal: AbortSignal): Promise<number>;
  /** Of one that goes on by itself once it has noted that everything goes under the current key: notes it. */
  begin?(): Promise<void>;
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

export async function openSecrets({ dataDir, environment }: SecretsOptions): Promise<Secrets> {
  const file = dataDir === null ? null : join(dataDir, keyFileName);
  const mark = dataDir === null ? null : fileMark(join(dataDir, markName));
  return new Secrets(await openKeyRing({ file, environment }), mark);
}

/** Holds the id of the key of a re-keying that is under way, so that the next start goes on with it. */
export interface RekeyMark {
  read(): Promise<string | undefined>;
  write(keyId: string): Promise<void>;
  /** A later re-keying may have begun meanwhile: its mark stays. */
  clear(keyId: string): Promise<void>;
}

function fileMark(path: string): RekeyMark {
  const read = async (): Promise<string | undefined> => {
    try {
      return await readFile(path, 'utf8');
    } catch (error) {
      // A node:fs error carries a code; without the file no re-keying is under way.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  };
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
  /** Null for a store that keeps nothing. */
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

  /** Joins in re-keying. */
  addHolder(holder: SecretHolder): void {
    this.#holders.push(holder);
  }

  /**
   * Makes a new key and puts every secret under it. Keys from the environment are not made here:
   * then everything goes under the first of them. Of two at once the second begins when the first is done.
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

  /** Goes on with a re-keying that was cut off. What it reached already is left as it is. */
  resume(onError: (error: unknown, about: string) => void): void {
    this.#resuming = this.#resume().catch((error: unknown) => {
      if (!this.#closing.signal.aborted)
        onError(error, 'going on with a re-keying that was cut off; the next start tries again');
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#resuming;
  }

  async #resume(): Promise<void> {
    const keyId = this.ring.currentId;
    // Another key may have come first since; then nobody has asked for everything to be under it.
    if ((await this.#mark?.read()) !== keyId) return;
    for (const holder of this.#holders) {
      // It may have been cut off before its holder had heard of it.
      if (holder.begin === undefined) await holder.reseal(() => undefined, this.#closing.signal);
      else await holder.begin();
    }
    await this.#mark?.clear(keyId);
  }
}
