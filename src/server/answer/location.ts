/** The address of a record that a request has created, for the header `Location`. */
import type { FastifyRequest } from 'fastify';
import { encodeSegment } from '../../core/text/path-segment.js';
import type { Route } from '../route.js';

/**
 * PUT and PATCH create what their own path names. After a POST the template of the operation says where the
 * record is, with fields of the answer or of the path.
 */
export function locationOf(route: Route, request: FastifyRequest, body: unknown): string | undefined {
  if (route.method !== 'POST') return request.url.split('?', 1)[0];
  // Answers with a location are objects, and Fastify's router returns parameters by name.
  const fields = { ...(request.params as object), ...(body as object) } as Record<string, unknown>;
  return route.location?.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeSegment(String(fields[name])));
}

/** Whether a 201 of the route has `Location`. */
export function hasLocation({ location, method }: Route): boolean {
  return location !== undefined || method !== 'POST';
}
