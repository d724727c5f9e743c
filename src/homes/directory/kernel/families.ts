/** The families that belong to the kernel itself. */
export const kernelFamilies = {
  meta: 'kernel/meta',
  changes: 'kernel/changes',
  redo: 'kernel/redo',
  timers: 'kernel/timers',
  idempotency: 'kernel/idempotency',
  /** By user: the bytes of all answers stored for the user. */
  idempotencyBytes: 'kernel/idempotency_bytes',
  /** By id: its owner. In shard 00 only, to find a record by its id alone. */
  directory: 'kernel/directory',
  /** In shard 00: the part of a write over two shards that the other shard still has to write. */
  intents: 'kernel/intents',
} as const;

/** Trimming a log is not recorded in the log, because a restore writes both logs again. */
export const logFamilies: ReadonlySet<string> = new Set([kernelFamilies.changes, kernelFamilies.redo]);
