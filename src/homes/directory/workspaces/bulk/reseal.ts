/**
 * Re-keying in the data directory: records are encrypted with the current key, in steps that survive a
 * restart.
 */
import { Listeners } from '../../../../core/listeners.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Transaction } from '../../kernel/transaction.js';
import type { Sealer } from '../../../../secrets/sealer.js';
import { resealConfig } from '../../../../workspaces/secrets/config-secrets.js';
import { type BulkWork, markBulk } from './bulk.js';
import { buckets } from '../keys.js';
import { decodeRecord, encodeJson } from '../rows.js';

/** Starts a re-keying, runs its steps in the bulk work, and counts the records for those who wait. */
export class Reseal {
  readonly #kernel: Kernel;
  readonly #sealer: Sealer;
  readonly #bulk: BulkWork;
  readonly #resealed = new Listeners<number>();

  constructor(kernel: Kernel, sealer: Sealer, bulk: BulkWork) {
    this.#kernel = kernel;
    this.#sealer = sealer;
    this.#bulk = bulk;
  }

  async begin(): Promise<void> {
    for (const store of this.#kernel.stores) await store.transact(startReseal);
    this.#bulk.kick();
  }

  /** Resolves with the number of re-encrypted records when all steps are done. */
  async run(onProgress: (resealed: number) => void): Promise<number> {
    let resealed = 0;
    const stop = this.#resealed.add((records) => {
      resealed += records;
      onProgress(resealed);
    });
    try {
      await this.begin();
      await this.#bulk.finish();
    } finally {
      stop();
    }
    return resealed;
  }

  step(tx: Transaction, from: string): string | null {
    const { next, resealed } = resealStep(tx, this.#sealer, this.#kernel.limits.workspaceStepRowsMax, from);
    this.#resealed.tell(resealed);
    return next;
  }
}

/** Marks the start; the steps follow. */
function startReseal(tx: Transaction): void {
  markBulk(tx, 'reseal', 'all', 'workspace:');
}

/** One step from the key `from` on. Version and updated_at do not change. */
function resealStep(
  tx: Transaction,
  sealer: Sealer,
  rowsMax: number,
  from: string,
): { next: string | null; resealed: number } {
  const inWorkspaces = from.startsWith('workspace:');
  const family = inWorkspaces ? buckets.workspaces : buckets.projects;
  let resealed = 0;
  let rows = 0;
  for (const { key, value } of tx.range(family, { gte: Buffer.from(from), limit: rowsMax + 1 })) {
    rows += 1;
    if (rows > rowsMax) return { next: key.toString(), resealed };
    const fresh = inWorkspaces ? resealedWorkspace(value, sealer) : resealedProject(value, sealer);
    if (fresh === undefined) continue;
    resealed += 1;
    tx.put(family, key, fresh);
  }
  return { next: inWorkspaces ? 'project:' : null, resealed };
}

function resealedWorkspace(value: Buffer, sealer: Sealer): Buffer | undefined {
  const workspace = decodeRecord('workspace', value);
  if (workspace.claude_key === null || !sealer.isStale(workspace.claude_key)) return undefined;
  return encodeJson({ ...workspace, claude_key: sealer.reseal(workspace.claude_key, workspace.id) });
}

function resealedProject(value: Buffer, sealer: Sealer): Buffer | undefined {
  const project = decodeRecord('project', value);
  const config = resealConfig(project.config, project.id, sealer);
  return config === project.config ? undefined : encodeJson({ ...project, config });
}
