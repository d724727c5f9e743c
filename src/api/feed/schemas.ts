/** The schemas of the change feed and of the commit across all domains. */
import { z } from 'zod';
import { changePageSchema } from '../../feed/schemas.js';
import { commitAnswerSchema, commitSchema } from '../../commit/schemas.js';
import { queryInteger } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { changes, commits } from './operations.js';

const position = z.string().min(1).max(4_096).optional();
const name = z.string().max(4_096).optional();

export const changeSchemas = {
  read: {
    description:
      'Returns a page, or a stream with `Accept: text/event-stream`. The stream has an event `changes` ' +
      'for each commit, with the position as its id, `position` while idle, and `resync` if the ' +
      'position is too old. ' +
      'Without `since` or `Last-Event-ID` a page starts at the oldest stored change and a stream at ' +
      'the newest.',
    query: z.object({
      since: position.meta({ description: 'A position; only changes after it are returned.' }),
      until: position.meta({
        description: 'A position; changes after it are left out. Only for pages.',
      }),
      back: queryInteger(1)
        .optional()
        .meta({
          description:
            'Instead of `since`: start this many commits before `until`, or before the newest. To read ' +
            'older changes, send `since` of the answer as `until`. Only for pages.',
        }),
      namespace: name.meta({ description: 'Only documents of this namespace of the user.' }),
      prefix: name.meta({ description: 'With `namespace`: only keys that begin with it.' }),
      project: z
        .string()
        .max(256)
        .optional()
        .meta({ description: 'Only this project (name or id), its sessions and tasks, and workspaces.' }),
      id: name.meta({ description: 'Only the record with this id.' }),
      topics: name.meta({
        description: 'Domains, kinds or nouns of kinds, separated by commas: `registry,document.set`.',
      }),
      limit: queryInteger(1).optional().meta({ description: 'Changes on a page; a commit is never split.' }),
    }),
    headers: z.object({ 'last-event-id': z.string().max(4_096).optional() }),
    answers: { 200: changePageSchema },
  },
} satisfies SchemasOf<typeof changes>;

export const commitSchemas = {
  create: {
    description:
      'Every check must hold at the moment of the commit. A conflict is an answer with `ok: false` ' +
      'that names the check or operation; invalid input is an error. On PostgreSQL a message is ' +
      'delivered right after the commit; the result of a message that still waits is `{queued: true, ' +
      'delivery}`.',
    body: commitSchema,
    answers: { 200: commitAnswerSchema },
  },
} satisfies SchemasOf<typeof commits>;
