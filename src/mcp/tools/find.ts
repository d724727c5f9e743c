/** The search over everything that the caller may read. */
import { z } from 'zod';
import { markedText as withMarks } from '../../find/excerpt.js';
import { findKinds, findModes } from '../../find/model.js';
import { cursor, limit, nextCursor, record } from './fields.js';
import { authorsFor, markedText } from '../shown-messages.js';
import { defineTool } from '../tool.js';

const find = defineTool({
  name: 'find',
  title: 'Find',
  description:
    'Search memory, tasks and messages by words or a question. "two words" is a phrase, ' +
    '-word excludes, begin* is a beginning.',
  annotations: { readOnlyHint: true },
  input: z.strictObject({
    query: z.string().min(1),
    in: z.array(z.enum(findKinds)).min(1).optional(),
    mode: z.enum(findModes).optional(),
    namespace: z.string().optional(),
    room: z.string().optional(),
    project: z.string().optional(),
    by: z.string().optional().describe('Last writer'),
    since: z.string().optional().describe('ISO 8601'),
    limit,
    cursor,
  }),
  output: z.object({ items: z.array(record), next_cursor: nextCursor, examined_all: z.boolean() }),
  run: async ({ stoa, caller, signal }, { query, by, ...asked }) => {
    const page = await stoa.find.find(caller, { ...asked, q: query, agent: by, signal });
    const { items, next_cursor, examined_all } = page;
    const authorOf = await authorsFor(
      stoa,
      caller,
      items.flatMap(({ kind, author }) => (kind === 'messages' && author !== null ? [{ from: author }] : [])),
    );
    return {
      items: items.map(({ excerpt, marks, score, kind, author, time, version, ...place }) => {
        const from = kind === 'messages' && author !== null ? authorOf(author) : undefined;
        const text = withMarks({ text: excerpt, marks });
        return {
          kind,
          place: place.namespace ?? place.project_id ?? place.room ?? place.room_id ?? '',
          id: place.key ?? place.id ?? '',
          score: score ?? 0,
          excerpt: from === undefined ? text : markedText(text, from),
          author: from?.name ?? author,
          ...(from !== undefined && { proven: from.proven }),
          time,
          version,
        };
      }),
      next_cursor,
      examined_all,
    };
  },
});

export const findTools = [find];
