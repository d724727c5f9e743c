/** Fast checks of path parameters, prepared once for each route. */
import { z } from 'zod';
import { pathSegment } from '../../api/fields.js';

/** Path parameters from the router: each is text. */
export type PathParams = Readonly<Record<string, string>>;

/**
 * True if a schema would return its input unchanged, so that it need not run: the parameters of nearly
 * every request are plain, and running a schema costs as much as finding the route.
 */
export type PlainParams = (params: PathParams) => boolean;

/** Undefined for a schema that must run each time. */
export function plainParamsOf(schema: z.ZodType | undefined): PlainParams | undefined {
  if (!(schema instanceof z.ZodObject)) return undefined;
  const fields = Object.entries<unknown>(schema.shape);
  if (!fields.every(([, field]) => isSegment(field) || isAnyText(field))) return undefined;
  const segments = fields.filter(([, field]) => isSegment(field)).map(([name]) => name);
  if (segments.length === 0) return () => true;
  return (params) => {
    for (const name of segments) if (!isPlainSegment(params[name])) return false;
    return true;
  };
}

/** `pathSegment`, also with a description of its own: the copy has the same transformation. */
function isSegment(field: unknown): boolean {
  return field instanceof z.ZodPipe && field.def.out === pathSegment.def.out;
}

function isAnyText(field: unknown): boolean {
  return field instanceof z.ZodString && field.def.checks === undefined && field.format === null;
}

/** Not empty and not written with `~`. */
function isPlainSegment(segment: string | undefined): boolean {
  return segment !== undefined && segment.length > 0 && segment.charCodeAt(0) !== 0x7e;
}
