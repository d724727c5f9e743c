/**
 * The ids that a file defines, in eight bytes each: a file may hold millions, and texts would take ten times
 * as much.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type Hash, HashSet } from '../../core/ids/hash-set.js';

/**
 * Hashes with a random salt, because a file must not be able to construct two ids with the same hash. Among
 * ten million ids two collide by chance once in 400,000 files; the second is then reported as repeated.
 */
export class KnownIds {
  readonly #salt = randomBytes(16);
  readonly #hashes = new HashSet();

  has(type: string, id: string): boolean {
    return this.#hashes.has(this.#hashOf(type, id));
  }

  /** False if the id was already added. */
  add(type: string, id: string): boolean {
    const hash = this.#hashOf(type, id);
    if (this.#hashes.has(hash)) return false;
    this.#hashes.add(hash);
    return true;
  }

  #hashOf(type: string, id: string): Hash {
    const digest = createHash('sha256').update(this.#salt).update(`${type} ${id}`).digest();
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
    return { high, low: high === 0 && low === 0 ? 1 : low };
  }
}
