/** What every store beside the home can do, and what it cannot. */
import type { DataCapabilities } from '../datastore/port.js';

/** The change of a write is announced right after it, also after a crash. No document is in the transaction of a commit. */
export const storeCapabilities = {
  changes: 'after-write',
  quotas: false,
  accessFlushMs: 10_000,
  reportsAccessVisible: false,
  sharedIds: true,
  listsLag: false,
} as const satisfies Partial<DataCapabilities>;
