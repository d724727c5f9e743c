/** The raw families of the store, for the operator. */
import { z } from 'zod';
import { concealsEmbedded, decodeEmbeddedEntry } from '../../backends/embedded/inspect.js';
import { keyBytesMax } from '../../kernel/engine.js';
import { countedStats, familyNamed, inspectFamily } from '../../kernel/inspect.js';
import { decodeCursor, encodeCursor, invalidCursor, pageLimit } from '../../paging.js';
import { pathSegment } from '../path-segment.js';
import { pageQuery } from '../query.js';
import { defineRoute, operatorOnly } from '../route.js';

const hex = z.string().describe('Bytes in hexadecimal');

export const inspectRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/inspect',
    summary: 'The families of the store, with counts and sizes',
    tags: ['operations'],
    principals: operatorOnly,
    answers: {
      200: z
        .object({
          items: z.array(
            z.object({ family: z.string(), entries: z.int(), size_bytes: z.int(), estimated: z.boolean() }),
          ),
          next_cursor: z.null(),
        })
        .meta({ id: 'Families' }),
    },
    handler: async ({ stoa }) => {
      const { families } = await countedStats(stoa.kernel.stores);
      const items = [...families].map(([family, { entries, sizeBytes, estimated }]) => ({
        family,
        entries,
        size_bytes: sizeBytes,
        estimated,
      }));
      return { items: items.toSorted((a, b) => (a.family < b.family ? -1 : 1)), next_cursor: null };
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/inspect/{family}',
    summary: 'The raw entries of a family, in key order',
    tags: ['operations'],
    principals: operatorOnly,
    params: z.object({ family: pathSegment }),
    query: z.object({
      ...pageQuery,
      prefix: z
        .string()
        .regex(/^([0-9a-fA-F]{2})*$/, 'must be bytes in hexadecimal')
        .max(2 * keyBytesMax)
        .optional()
        .meta({ description: 'Only keys that begin with these bytes, in hex.' }),
    }),
    answers: {
      200: z
        .object({
          items: z.array(z.object({ key: hex, value: hex, decoded: z.unknown() })),
          next_cursor: z.string().nullable(),
        })
        .meta({ id: 'Entries' }),
    },
    handler: ({ stoa, params, query }) => {
      const { stores } = stoa.kernel;
      const family = familyNamed(stores, params.family);
      const prefix = Buffer.from(query.prefix ?? '', 'hex');
      const list = `inspect ${family} ${prefix.toString('hex')}`;
      // A cursor is the number of the shard and the last key of the page before.
      const cursor = decodeCursor(list, query.cursor);
      if (cursor !== null && cursor.length > 1 + keyBytesMax) throw invalidCursor();
      const from = cursor === null ? undefined : { shard: cursor.readUInt8(0), after: cursor.subarray(1) };
      const { items, next } = inspectFamily(stores, family, {
        prefix,
        limit: pageLimit(query.limit, stoa.limits),
        from,
        decode: decodeEmbeddedEntry,
        conceals: concealsEmbedded,
      });
      return {
        items,
        next_cursor:
          next === undefined ? null : encodeCursor(list, Buffer.concat([Buffer.of(next.shard), next.after])),
      };
    },
  }),
];
