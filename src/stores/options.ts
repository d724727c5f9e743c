/** How a store is opened. */
import type { Limits } from '../core/settings/limits.js';

export interface StoreOptions {
  limits: Limits;
  nowMs: () => number;
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
  /** False if documents are only exported: missing databases, tables and indexes are not created. */
  prepare?: boolean;
}
