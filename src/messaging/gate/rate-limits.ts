/** The rate of each endpoint, and the row of the table that applies to a request. */
import type { Limits } from '../../core/settings/limits.js';

export interface RateLimit<Name extends string = string> {
  /** Names the counter. */
  endpoint: Name;
  limit: number;
  windowSeconds: number;
  /** `agent` counts by the verified agent, and by address while none is verified. */
  by: 'address' | 'agent';
  /** A method and the beginning of a path, for each kind of request that counts here. */
  patterns: readonly string[];
}

/** The counter of all requests from an address. */
export const everyEndpoint = 'all';

const minute = 60;
const hour = 3600;

/** The name stays a type, so that `Endpoint` lists all of them. */
function row<Name extends string>(
  endpoint: Name,
  by: RateLimit['by'],
  limit: number,
  windowSeconds: number,
  ...patterns: string[]
): RateLimit<Name> {
  return { endpoint, by, limit, windowSeconds, patterns };
}

export function rateLimitTable(limits: Limits) {
  const { directReadsPerMinuteMax: inboxReads, directSendsPerMinuteMax: inboxSends } = limits;
  return [
    row('register', 'address', limits.registrationsPerHourMax, hour, 'POST /register'),
    row('who', 'address', limits.profileReadsPerMinuteMax, minute, 'GET /who/', 'GET /v1/identities/'),
    row('profile', 'agent', limits.profileChangesPerHourMax, hour, 'PATCH /who/', 'POST /who/'),
    row('channels', 'address', limits.channelReadsPerMinuteMax, minute, 'GET /channels', 'GET /v1/rooms'),
    row('find', 'address', limits.searchesPerMinuteMax, minute, 'GET /find'),
    row('create-room', 'agent', limits.roomsCreatedPerHourMax, hour, 'POST /room', 'POST /v1/rooms'),
    row(
      'read-room',
      'agent',
      limits.roomReadsPerMinuteMax,
      minute,
      'GET /room/',
      'GET /stream',
      'GET /v1/rooms/',
    ),
    row('post', 'agent', limits.postsPerMinuteMax, minute, 'POST /room/', 'POST /v1/rooms/'),
    row(
      'delete',
      'agent',
      limits.deletesPerMinuteMax,
      minute,
      'DELETE /room/',
      'PATCH /v1/rooms/',
      'DELETE /v1/rooms/',
    ),
    row('dm-send', 'agent', inboxSends, minute, 'POST /dm/', 'POST /v1/inbox'),
    row('dm-read', 'agent', inboxReads, minute, 'GET /dm', 'GET /v1/inbox'),
    row('dm-ack', 'agent', inboxReads, minute, 'POST /dm/ack', 'POST /v1/inbox/ack'),
  ] as const;
}

export type RateLimitTable = ReturnType<typeof rateLimitTable>;
export type Endpoint = RateLimitTable[number]['endpoint'];

/** The longest matching pattern applies. */
export function rateLimitFor(table: RateLimitTable, method: string, path: string): RateLimit | undefined {
  const request = `${method === 'HEAD' ? 'GET' : method} ${path}`;
  let found: RateLimit | undefined;
  let longest = 0;
  for (const row of table) {
    for (const pattern of row.patterns) {
      if (pattern.length <= longest || !request.startsWith(pattern)) continue;
      [found, longest] = [row, pattern.length];
    }
  }
  return found;
}
