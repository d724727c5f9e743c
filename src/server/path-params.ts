/** The check of a path's parameters, made ready once for each route. */
import { z } from 'zod';
import { pathSegment } from '../api/fields.js';

/** Path parameters as the router hands them over: each is text. */
export type PathParams = Readonly<Record<string, string>>;

/**
 * True where a schema would give back just what it was given, so that it need not run: nearly every
 * request's parameters are plain, and running a schema costs as much as finding the route.
 */
export type PlainParams = (params: PathParams) => boolean;

/** Undefined for a schema that has to run each time. */
export function plainParamsOf(schema: z.ZodType | undefined): PlainParams | undefined {
  if (!(schema instanceof z.ZodObject)) return undefined;
  const fields = Object.entries<unknown>(schema.shape);
  if (!fields.every(([, field]) => field === pathSegment || isAnyText(field))) return undefined;
  const segments = fields.filter(([, field]) => field === pathSegment).map(([name]) => name);
  if (segments.length === 0) return () => true;
  return (params) => {
    for (const name of segments) if (!isPlainSegment(params[name])) return false;
    return true;
  };
}

function isAnyText(field: unknown): boolean {
  return field instanceof z.ZodString && field.def.checks === undefined && field.format === null;
}

/** Neither empty nor written with `~`. */
function isPlainSegment(segment: string | undefined): boolean {
  return segment !== undefined && segment.length > 0 && segment.charCodeAt(0) !== 0x7e;
}
