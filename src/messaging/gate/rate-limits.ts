/** The rate of each endpoint, and the row of the table that applies to a request. */
import type { Limits } from '../../core/settings/limits.js';

export interface RateLimit {
  /** Names the counter. */
  endpoint: string;
  /** A method and the beginning of a path. */
  pattern: string;
  limit: number;
  windowSeconds: number;
  /** `agent` counts by the verified agent, and by address while none is verified. */
  by: 'address' | 'agent';
}

/** The counter of all requests from an address. */
export const everyEndpoint = 'all';

const minute = 60;
const hour = 3600;

export function rateLimitTable(limits: Limits): readonly RateLimit[] {
  const row = (
    pattern: string,
    endpoint: string,
    by: RateLimit['by'],
    limit: number,
    windowSeconds: number,
  ): RateLimit => ({ pattern, endpoint, by, limit, windowSeconds });
  return [
    row('POST /register', 'register', 'address', limits.registrationsPerHourMax, hour),
    row('GET /who/', 'who', 'address', limits.profileReadsPerMinuteMax, minute),
    row('GET /v1/identities/', 'who', 'address', limits.profileReadsPerMinuteMax, minute),
    row('PATCH /who/', 'profile', 'agent', limits.profileChangesPerHourMax, hour),
    row('POST /who/', 'profile', 'agent', limits.profileChangesPerHourMax, hour),
    row('GET /channels', 'channels', 'address', limits.channelReadsPerMinuteMax, minute),
    row('GET /find', 'find', 'address', limits.searchesPerMinuteMax, minute),
    row('POST /room', 'create-room', 'agent', limits.roomsCreatedPerHourMax, hour),
    row('GET /room/', 'read-room', 'agent', limits.roomReadsPerMinuteMax, minute),
    row('GET /stream', 'read-room', 'agent', limits.roomReadsPerMinuteMax, minute),
    row('POST /room/', 'post', 'agent', limits.postsPerMinuteMax, minute),
    row('DELETE /room/', 'delete', 'agent', limits.deletesPerMinuteMax, minute),
    row('POST /dm/', 'dm-send', 'agent', limits.directSendsPerMinuteMax, minute),
    row('POST /dm/ack', 'dm-ack', 'agent', limits.directReadsPerMinuteMax, minute),
    row('GET /v1/rooms', 'channels', 'address', limits.channelReadsPerMinuteMax, minute),
    row('POST /v1/rooms', 'create-room', 'agent', limits.roomsCreatedPerHourMax, hour),
    row('GET /v1/rooms/', 'read-room', 'agent', limits.roomReadsPerMinuteMax, minute),
    row('POST /v1/rooms/', 'post', 'agent', limits.postsPerMinuteMax, minute),
    row('PATCH /v1/rooms/', 'delete', 'agent', limits.deletesPerMinuteMax, minute),
    row('DELETE /v1/rooms/', 'delete', 'agent', limits.deletesPerMinuteMax, minute),
    row('GET /v1/inbox', 'dm-read', 'agent', limits.directReadsPerMinuteMax, minute),
    row('POST /v1/inbox', 'dm-send', 'agent', limits.directSendsPerMinuteMax, minute),
    row('POST /v1/inbox/ack', 'dm-ack', 'agent', limits.directReadsPerMinuteMax, minute),
    row('GET /dm', 'dm-read', 'agent', limits.directReadsPerMinuteMax, minute),
  ];
}

/** The longest matching pattern applies. */
export function rateLimitFor(
  table: readonly RateLimit[],
  method: string,
  path: string,
): RateLimit | undefined {
  const request = `${method === 'HEAD' ? 'GET' : method} ${path}`;
  let found: RateLimit | undefined;
  for (const row of table) {
    if (request.startsWith(row.pattern) && row.pattern.length > (found?.pattern.length ?? 0)) found = row;
  }
  return found;
}
