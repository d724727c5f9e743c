/** Which errors a route answers with, from the facts of its row. */
import { type ErrorCode, errorKinds } from '../../core/errors.js';
import type { Route } from '../route.js';

/** The usual codes of the caller's mistakes. Any operation can also answer with the codes of the server. */
function errorsOf(route: Route): ErrorCode[] {
  const isOpen = route.principals.includes('anyone');
  const facts: readonly (readonly [boolean | undefined, ErrorCode])[] = [
    [true, 'invalid_request'],
    [!isOpen, 'unauthenticated'],
    [!isOpen, 'forbidden'],
    [route.path.includes('{'), 'not_found'],
    [route.writes, 'conflict'],
    [route.creates || route.takesKey, 'idempotency_mismatch'],
    [route.versioned && route.writes && !route.creates, 'version_conflict'],
    [route.body !== undefined || route.upload, 'too_large'],
    [route.body !== undefined && route.consumes !== 'raw', 'unsupported_media_type'],
    [true, 'rate_limited'],
  ];
  return facts.flatMap(([holds, code]) => (holds === true ? [code] : []));
}

/** The codes by their HTTP status. */
export function errorStatusesOf(route: Route): Map<string, ErrorCode[]> {
  const statuses = new Map<string, ErrorCode[]>();
  for (const code of errorsOf(route)) {
    const status = String(errorKinds[code].status);
    statuses.set(status, [...(statuses.get(status) ?? []), code]);
  }
  return statuses;
}
