/** The keys that encrypt secrets: from the environment, or from a 0600 file beside the database. */
import { createHash, randomBytes } from 'node:crypto';
import { chmod, readFile, stat } from 'node:fs/promises';
import { StoaError, fileReasonOf } from '../core/errors.js';
import { KeyQueue } from '../core/waiting/key-queue.js';
import { isMissing, privateFile, writeDurably } from '../core/files.js';

export interface KeyRingOptions {
  /** Null keeps the keys only in memory, for a store without files. */
  file: string | null;
  /**
   * `STOA_SECRET_KEYS`: keys of 32 bytes in hex or base64, separated by commas. The first one encrypts, all
   * decrypt.
   */
  environment?: string | undefined;
}

interface KeyFile {
  current: string;
  /** Base64 by key id. Old keys are kept: backups and unfinished re-keyings need them. */
  keys: Record<string, string>;
}

const keyBytes = 32;

/** Reads the key file, or makes it with a first key. */
export async function openKeyRing(options: KeyRingOptions): Promise<KeyRing> {
  const given = (options.environment ?? '').split(',').filter((part) => part.trim() !== '');
  const keys = new Map<string, Buffer>();
  const fromFile = options.file === null ? undefined : await readKeyFile(options.file);
  for (const [id, encoded] of Object.entries(fromFile?.keys ?? {}))
    keys.set(id, Buffer.from(encoded, 'base64'));
  const environmentKeys = given.map((part) => parseKey(part.trim()));
  for (const key of environmentKeys) keys.set(idOf(key), key);
  const first = environmentKeys[0];
  if (first !== undefined) return new KeyRing(null, keys, idOf(first));
  if (fromFile !== undefined) return new KeyRing(options.file, keys, fromFile.current);
  const ring = new KeyRing(options.file, keys, '');
  await ring.addKey();
  return ring;
}

export class KeyRing {
  /** Null if the keys come from the environment, or are only in memory. */
  readonly file: string | null;
  readonly #keys: Map<string, Buffer>;
  #current: string;
  readonly #fixed: boolean;
  readonly #queue = new KeyQueue();

  constructor(file: string | null, keys: Map<string, Buffer>, current: string) {
    this.file = file;
    this.#keys = keys;
    this.#current = current;
    this.#fixed = file === null && current !== '';
  }

  /** The id of the key that new secrets are encrypted with. */
  get currentId(): string {
    return this.#current;
  }

  get keyIds(): string[] {
    return [...this.#keys.keys()];
  }

  /** Throws if the ring does not have the key. */
  key(id: string): Buffer {
    const key = this.#keys.get(id);
    if (key !== undefined) return key;
    throw new StoaError(
      'damaged_data',
      `A secret is encrypted with the key ${id}, which the key ring does not have.`,
      { fix: 'Put the old key back into the key file, or add it after the current key in STOA_SECRET_KEYS.' },
    );
  }

  /** The file, for a backup that includes the keys. Throws if there is no file. */
  fileForCopy(): string {
    if (this.file !== null) return this.file;
    throw new StoaError(
      'conflict',
      'The store has no key file to back up: its keys are in STOA_SECRET_KEYS or only in memory.',
      { fix: 'Back up without --with-key, and store the value of STOA_SECRET_KEYS safely.' },
    );
  }

  /**
   * Creates a new key, which encrypts from now on. Old keys are kept, because a record or a backup may need
   * them.
   */
  async addKey(): Promise<string> {
    if (this.#fixed) {
      throw new StoaError(
        'conflict',
        'The keys come from STOA_SECRET_KEYS, so the server cannot create a new key.',
        { fix: 'Put the new key first in STOA_SECRET_KEYS ("new,old"), start again, then re-key.' },
      );
    }
    return this.#queue.run('add', () => this.#addKey());
  }

  async #addKey(): Promise<string> {
    const key = randomBytes(keyBytes);
    const id = idOf(key);
    this.#keys.set(id, key);
    try {
      if (this.file !== null) await addToKeyFile(this.file, id, this.#keys);
    } catch (error) {
      this.#keys.delete(id);
      throw error;
    }
    // Set only after the file was written: a restart must find every key that was used.
    this.#current = id;
    return id;
  }

  /** Whether `addKey` can make a new key: not when the environment gives it. */
  get canAddKey(): boolean {
    return !this.#fixed;
  }
}

/** A new key, as `STOA_SECRET_KEYS` takes it. */
export function newKeyText(): string {
  return randomBytes(keyBytes).toString('hex');
}

/** An id of a key that reveals nothing about it. */
function idOf(key: Buffer): string {
  return createHash('sha256').update('stoa key id').update(key).digest('hex').slice(0, 12);
}

function parseKey(text: string): Buffer {
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64');
  if (key.length !== keyBytes) {
    throw new StoaError(
      'invalid_config',
      `A key in STOA_SECRET_KEYS has ${key.length} bytes; expected 32 bytes in hex or base64.`,
      { fix: 'Create one with: openssl rand -hex 32' },
    );
  }
  return key;
}

async function readKeyFile(file: string): Promise<KeyFile | undefined> {
  let content: string;
  try {
    const { mode } = await stat(file);
    // A reader of the file can decrypt every secret.
    if ((mode & 0o077) !== 0) await chmod(file, privateFile);
    content = await readFile(file, 'utf8');
  } catch (error) {
    // A node:fs error carries a code; a missing file means that this is the first start.
    if (isMissing(error)) return undefined;
    throw new StoaError('invalid_config', `The key file ${file} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the permissions of the file.',
    });
  }
  const parsed = parseKeyFile(content);
  if (parsed === undefined)
    throw new StoaError('damaged_data', `The key file ${file} is damaged.`, {
      fix: 'Restore the file from a copy. Without it no secret can be decrypted.',
    });
  return parsed;
}

function parseKeyFile(content: string): KeyFile | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(content);
  } catch {
    return undefined;
  }
  if (typeof parsed !== 'object' || parsed === null || !('current' in parsed) || !('keys' in parsed))
    return undefined;
  const { current, keys } = parsed;
  if (typeof current !== 'string' || typeof keys !== 'object' || keys === null) return undefined;
  const entries = Object.entries(keys).filter(
    (entry): entry is [string, string] =>
      typeof entry[1] === 'string' && Buffer.from(entry[1], 'base64').length === keyBytes,
  );
  const ring = Object.fromEntries(entries);
  return ring[current] === undefined || entries.length !== Object.keys(keys).length
    ? undefined
    : { current, keys: ring };
}

/**
 * Replaces the file completely or not at all, and waits for the disk: a lost key makes its secrets
 * unreadable. Keys that only the file has are kept, and the file is read again before the new key is used.
 */
async function addToKeyFile(file: string, current: string, keys: ReadonlyMap<string, Buffer>): Promise<void> {
  const all = {
    ...(await readKeyFile(file))?.keys,
    ...Object.fromEntries([...keys].map(([id, key]) => [id, key.toString('base64')])),
  };
  await writeDurably(file, `${JSON.stringify({ current, keys: all }, undefined, 2)}\n`);
  const written = await readKeyFile(file);
  const isWhole =
    written?.current === current && Object.entries(all).every(([id, key]) => written.keys[id] === key);
  if (!isWhole)
    throw new StoaError('conflict', `Another program changed the key file ${file} while a key was added.`, {
      fix: 'Run only one server on this data directory, then re-key again. The old key is still in use.',
    });
}
