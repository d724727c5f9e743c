/** One HTTP exchange of the protocol, whichever of its generations serves it. */
import type { Caller } from '../core/caller.js';

export interface Exchange {
  /** Without its body, which is parsed already. */
  request: Request;
  body: unknown;
  caller: Caller;
}

/** An error of the protocol that concerns no single call. */
export function refusal(
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
  id: string | number | null = null,
): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id }, { status, headers });
}
