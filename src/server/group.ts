/** A group of routes with the same error format and authentication. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { StoaError } from '../core/errors.js';
import type { Authenticator } from './request/authentication.js';
import type { Route } from './route.js';

export type ErrorWriter = (error: StoaError, request: FastifyRequest, reply: FastifyReply) => unknown;

export interface RouteGroup {
  readonly routes: readonly Route[];
  /** True for a path without a route whose errors (404, 405) this group writes. */
  readonly owns?: (path: string) => boolean;
  /** Writes errors. The default is RFC 9457 problem details. */
  readonly writeError?: ErrorWriter;
  /** Runs before an error is written as problem details: headers, counters. */
  readonly onError?: (error: StoaError, request: FastifyRequest, reply: FastifyReply) => Promise<void>;
  /** The JSON that `writeError` sends, for the reference. */
  readonly errorSchema?: z.ZodType;
  /** Runs first on every request of the group, also for unknown paths: headers, limits. */
  readonly onRequest?: (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;
  /** Replaces the server's authenticators. */
  readonly authenticators?: readonly Authenticator[];
}
