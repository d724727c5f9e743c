/** One HTTP exchange of the protocol, for both generations. */
import type { Caller } from '../core/caller.js';

export interface Exchange {
  /** Without its body, which is already parsed. */
  request: Request;
  body: unknown;
  caller: Caller;
}

/** A protocol error that does not belong to one call. */
export function refusal(
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
  id: string | number | null = null,
): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id }, { status, headers });
}
