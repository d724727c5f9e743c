/** Backends without atomic batches report each key; LangGraph only knows success or an error. */
import type { KeyResult } from '../client/index.js';
import { type ErrorCode, StoaError, errorKinds } from '../core/errors.js';

export function requireWritten(results: Readonly<Record<string, KeyResult>>): void {
  for (const result of Object.values(results)) {
    if (!('error' in result)) continue;
    const { code, detail } = result.error;
    // The code was looked up in the table.
    throw new StoaError(Object.hasOwn(errorKinds, code) ? (code as ErrorCode) : 'internal', detail);
  }
}
