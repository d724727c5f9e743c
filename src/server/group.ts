/** Routes that share how they answer errors and prove who calls. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { StoaError } from '../core/errors.js';
import type { SharedHeaders } from './answer-writer.js';
import type { Authenticator } from './authentication.js';
import type { Route } from './route.js';

export type ErrorWriter = (error: StoaError, request: FastifyRequest, reply: FastifyReply) => unknown;

export interface RouteGroup {
  readonly routes: readonly Route[];
  /** True for a path that no route has but whose errors (404, 405) are still this group's. */
  readonly owns?: (path: string) => boolean;
  /** How errors look; RFC 9457 problem details unless given. */
  readonly writeError?: ErrorWriter;
  /** The JSON that `writeError` sends, for the reference. */
  readonly errorSchema?: z.ZodType;
  /** What every answer of the group carries; the server's own unless given. */
  readonly headers?: SharedHeaders;
  /** Runs first on every request of the group, unknown paths included: headers, limits. */
  readonly onRequest?: (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;
  /** Instead of the server's own. */
  readonly authenticators?: readonly Authenticator[];
}
