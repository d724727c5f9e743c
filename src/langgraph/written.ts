/** Backends that cannot write all or nothing answer key by key; LangGraph knows only success. */
import type { KeyResult } from '../client/index.js';
import { type ErrorCode, StoaError, errorKinds } from '../core/errors.js';

export function requireWritten(results: Readonly<Record<string, KeyResult>>): void {
  for (const result of Object.values(results)) {
    if (!('error' in result)) continue;
    const { code, detail } = result.error;
    // The table was just asked for the code.
    throw new StoaError(Object.hasOwn(errorKinds, code) ? (code as ErrorCode) : 'internal', detail);
  }
}
