/**
 * Where each project's line of ready tasks begins, as far as this process knows. Claims delete at the
 * front of an ordered index; without this each would step over what the ones before it have deleted.
 */

interface Head {
  /** No ready entry is known at or before this key. */
  key: string;
  sinceMs: number;
}

/** After this time a claim looks from the very beginning again, whatever it believes. */
const trustedMs = 1_000;
const projectsMax = 10_000;

export class ReadyHeads {
  readonly #heads = new Map<string, Head>();

  /** The key after which to look, or undefined to look from the beginning. */
  after(projectId: string, nowMs: number): string | undefined {
    const head = this.#heads.get(projectId);
    return head === undefined || nowMs - head.sinceMs > trustedMs || nowMs < head.sinceMs ? undefined : head.key;
  }

  /** The first entry was taken; `fromBeginning` when the look began there. */
  taken(projectId: string, key: string, fromBeginning: boolean, nowMs: number): void {
    const sinceMs = fromBeginning ? nowMs : (this.#heads.get(projectId)?.sinceMs ?? nowMs);
    if (this.#heads.size >= projectsMax && !this.#heads.has(projectId)) this.#heads.clear();
    this.#heads.set(projectId, { key, sinceMs });
  }

  /** An entry came: when it stands before the head, the head is no longer true. */
  added(projectId: string, key: string): void {
    const head = this.#heads.get(projectId);
    if (head !== undefined && key <= head.key) this.#heads.delete(projectId);
  }

  /** A transaction was undone: what it took is back. */
  forget(projectId: string): void {
    this.#heads.delete(projectId);
  }
}
