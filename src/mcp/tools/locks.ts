/** The tool for advisory locks. */
import { z } from 'zod';
import { cursor, limit, nextCursor } from './fields.js';
import { defineTool } from '../tool.js';
import { required } from './tasks.js';

const lock = z.looseObject({ name: z.string(), holder: z.string(), expires_at: z.string() });

const locks = defineTool({
  name: 'lock',
  title: 'Lock a file or name',
  description:
    'Tell other agents that you are changing something, such as src/app.ts. acquire before the first ' +
    'change (again: renews); release after the last. If another agent holds it, the error says who and ' +
    'until when. list: what is locked.',
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  input: z.strictObject({
    action: z.enum(['acquire', 'release', 'list']),
    name: z.string().optional().describe('Such as a path; list: names that begin with it'),
    ttl: z.number().positive().optional().describe('Seconds; default 900'),
    wait_seconds: z.number().min(0).optional().describe('At most 60'),
    note: z.string().optional().describe('Why'),
    limit,
    cursor,
  }),
  output: z.object({
    locks: z.array(lock),
    released: z.boolean().optional(),
    next_cursor: nextCursor.optional(),
  }),
  run: async ({ stoa, caller, signal }, input) => {
    const { name, ttl, note, wait_seconds: wait } = input;
    if (input.action === 'list') {
      const { limit: items, cursor: after } = input;
      const page = await stoa.locks.list(caller, { prefix: name, limit: items, cursor: after });
      return { locks: page.items, next_cursor: page.next_cursor };
    }
    const wanted = required(input, 'name');
    if (input.action === 'release')
      return { locks: [], released: (await stoa.locks.release(caller, wanted)).released };
    const acquired = await stoa.locks.acquire(caller, wanted, { ttl, note, wait }, signal);
    return { locks: [acquired.lock] };
  },
});

export const lockTools = [locks];
