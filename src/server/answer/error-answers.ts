/** Answers of requests that fail: problem details, or the form that the group of the route has. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { StoaError } from '../../core/errors.js';
import type { Stoa } from '../../index.js';
import type { RouteGroup } from '../group.js';
import { pathOf } from '../unknown-routes.js';
import { type AnswerWriter, serverHeaders } from './answer-writer.js';
import { bodyTooLarge, isBodyTooLarge, problemOf, stoaErrorOf } from './problem.js';

export interface ErrorAnswersOptions {
  readonly stoa: Stoa;
  readonly groups: readonly RouteGroup[];
  readonly logger: Logger;
  readonly writer: AnswerWriter;
}

export class ErrorAnswers {
  readonly #options: ErrorAnswersOptions;

  constructor(options: ErrorAnswersOptions) {
    this.#options = options;
  }

  /** Also the error handler of Fastify. */
  readonly answer = (thrown: unknown, request: FastifyRequest, reply: FastifyReply): unknown => {
    const { stoa, writer } = this.#options;
    const error = isBodyTooLarge(thrown)
      ? bodyTooLarge(request.routeOptions.config.route?.bodyLimit ?? 'bodyBytesMax', stoa.limits)
      : stoaErrorOf(thrown);
    this.#log(error, request);
    const group = this.groupOf(request);
    if (group?.onError !== undefined)
      return group
        .onError(error, request, reply)
        .catch((failure: unknown) => stoa.onError(failure, 'counting a refused request'))
        .then(() => this.#writeProblem(error, request, reply));
    if (group?.writeError === undefined) return this.#writeProblem(error, request, reply);
    writer.stamp(request, reply, serverHeaders);
    writer.note(request, error.status);
    return group.writeError(error, request, reply);
  };

  /** The group of the route; for an unknown path, the group that owns the path. */
  groupOf(request: FastifyRequest): RouteGroup | undefined {
    const { config } = request.routeOptions;
    return config.group ?? this.#options.groups.find((group) => group.owns?.(pathOf(request)) === true);
  }

  /** Only faults of the server. A request that ended because of the stop is not a fault. */
  #log(error: StoaError, request: FastifyRequest): void {
    if (error.status < 500 || error.code === 'closed') return;
    this.#options.logger[error.code === 'internal' ? 'error' : 'warn'](
      { err: error.cause ?? error, code: error.code, request: request.id, route: request.routeOptions.url },
      error.message,
    );
  }

  #writeProblem(error: StoaError, request: FastifyRequest, reply: FastifyReply): void {
    if (error.code === 'unauthenticated') void reply.header('www-authenticate', 'Bearer realm="stoa"');
    if (error.status === 503 && !reply.hasHeader('retry-after')) void reply.header('retry-after', '1');
    this.#options.writer.text(
      request,
      reply,
      error.status,
      'application/problem+json; charset=utf-8',
      JSON.stringify(problemOf(error, request.id)),
      { shared: serverHeaders, hasHeaders: true },
    );
  }
}
