/** The change feed, and the commit across all domains: the schemas of their operations. */
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
      'As a page, or with `Accept: text/event-stream` as a stream: an event `changes` a commit, with the position as its id; `position` while nothing happens; `resync` when the position is too old. ' +
      'A page starts at the oldest change that is kept, a stream at the newest, unless `since` or `Last-Event-ID` says otherwise.',
    query: z.object({
      since: position.meta({ description: 'A position; what comes after it is answered.' }),
      until: position.meta({
        description: 'A position; what came after it is left out. Only for pages.',
      }),
      namespace: name.meta({ description: 'Only documents of this namespace of the user.' }),
      prefix: name.meta({ description: 'With `namespace`: only keys that begin with it.' }),
      project: z
        .string()
        .max(256)
        .optional()
        .meta({ description: 'Only this project, its sessions and tasks, and workspaces.' }),
      id: name.meta({ description: 'Only the thing with this id.' }),
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
      'Every check must hold at the moment of the commit. A conflict is an answer with `ok: false` that names the check or operation; input that could never be right is an error. On PostgreSQL a message is delivered right after the commit: one that still waits is `{queued: true, delivery}`.',
    body: commitSchema,
    answers: { 200: commitAnswerSchema },
  },
} satisfies SchemasOf<typeof commits>;
