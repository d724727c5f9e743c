/** The search over everything that the caller may read. */
import { z } from 'zod';
import { markedText } from '../../find/excerpt.js';
import { findKinds, findModes } from '../../find/model.js';
import { cursor, limit, nextCursor, record } from './fields.js';
import { defineTool } from '../tool.js';

const find = defineTool({
  name: 'find',
  title: 'Find',
  description:
    'Search memory, tasks and messages by words or a question, the best first. "two words" is a phrase, ' +
    '-word excludes, begin* is a beginning.',
  annotations: { readOnlyHint: true },
  input: z.strictObject({
    query: z.string().min(1),
    in: z.array(z.enum(findKinds)).min(1).optional(),
    mode: z.enum(findModes).optional(),
    namespace: z.string().optional(),
    room: z.string().optional(),
    project: z.string().optional(),
    by: z.string().optional().describe('Agent of the last write'),
    since: z.string().optional().describe('ISO 8601'),
    limit,
    cursor,
  }),
  output: z.object({ items: z.array(record), next_cursor: nextCursor }),
  run: async ({ stoa, caller, signal }, { query, by, ...asked }) => {
    const { items, next_cursor } = await stoa.find.find(caller, { ...asked, q: query, agent: by, signal });
    return {
      items: items.map(({ excerpt, marks, score, kind, author, time, version, ...place }) => ({
        kind,
        place: place.namespace ?? place.project_id ?? place.room ?? place.room_id ?? '',
        id: place.key ?? place.id ?? '',
        score: score ?? 0,
        excerpt: markedText({ text: excerpt, marks }),
        author,
        time,
        version,
      })),
      next_cursor,
    };
  },
});

export const findTools = [find];
