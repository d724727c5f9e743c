/** What is wrong with a request that no route answers: its path, or only its method. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { StoaError } from '../core/errors.js';
import type { Route } from './route.js';

export class UnknownRoutes {
  readonly #known: readonly { readonly method: string; readonly pattern: RegExp }[];

  constructor(routes: readonly Route[]) {
    this.#known = routes.map(({ method, path }) => ({ method, pattern: patternOf(path) }));
  }

  errorOf(request: FastifyRequest, reply: FastifyReply): StoaError {
    const path = pathOf(request);
    const allowed = this.#known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    const shown = path.slice(0, 200);
    if (allowed.length === 0)
      return new StoaError('not_found', `Unknown path ${shown}.`, {
        fix: 'GET /openapi.json lists every route.',
      });
    const methods = [...new Set(allowed.includes('GET') ? [...allowed, 'HEAD'] : allowed)];
    void reply.header('allow', methods.join(', '));
    return new StoaError('method_not_allowed', `${shown} does not support ${request.method}.`, {
      fix: `Use ${methods.join(', ')}.`,
      details: { allowed: methods },
    });
  }
}

/** The path of a request, without its query. */
export function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] as string;
}

/** Matches one path segment for each parameter, as the router does. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}
