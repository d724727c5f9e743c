/** The families that belong to the kernel itself. */
export const kernelFamilies = {
  meta: 'kernel/meta',
  changes: 'kernel/changes',
  redo: 'kernel/redo',
  timers: 'kernel/timers',
  idempotency: 'kernel/idempotency',
  /** Id to owner, in shard 00 only: lookups by an id alone. */
  directory: 'kernel/directory',
} as const;

/** Trimming a log is not worth a line in the log: a restore writes both anew. */
export const logFamilies: ReadonlySet<string> = new Set([kernelFamilies.changes, kernelFamilies.redo]);
