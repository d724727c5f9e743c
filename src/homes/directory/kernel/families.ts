/** The families that belong to the kernel itself. */
export const kernelFamilies = {
  meta: 'kernel/meta',
  changes: 'kernel/changes',
  redo: 'kernel/redo',
  timers: 'kernel/timers',
  idempotency: 'kernel/idempotency',
  /** User to the bytes of all answers kept for it. */
  idempotencyBytes: 'kernel/idempotency_bytes',
  /** Id to owner, in shard 00 only: lookups by an id alone. */
  directory: 'kernel/directory',
  /** In shard 00: what a write over two shards still has to do in the other. */
  intents: 'kernel/intents',
  /** In that other shard: the intents that were carried out there. */
  finishedIntents: 'kernel/finished_intents',
} as const;

/** Trimming a log is not recorded in the log, because a restore writes both logs again. */
export const logFamilies: ReadonlySet<string> = new Set([kernelFamilies.changes, kernelFamilies.redo]);
