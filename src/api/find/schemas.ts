/** The schemas of the search. */
import { z } from 'zod';
import { json } from '../../datastore/schemas.js';
import { findKinds, findModes } from '../../find/model.js';
import { pageQuery, progressAbout, queryBoolean } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { find } from './operations.js';

const kinds = z.enum(findKinds);

const about = {
  q: 'The words. `"two words"` for a phrase, `-word` to exclude one, `begin*` for words that begin so.',
  in: 'What is searched: `data`, `tasks`, `messages`. Default: what the other fields name, else all.',
  namespace: 'Only documents of this namespace.',
  prefix: 'Only documents whose key begins with this text.',
  project: 'Only tasks of this project.',
  room: 'Only messages of this room.',
  agent: 'Only what this agent wrote last, by its name or id.',
  since: 'Only what was written at this time or later (ISO 8601).',
  until: 'Only what was written before this time (ISO 8601).',
  mode:
    'How results are found: `text` by words (default), `vector` by meaning, `hybrid` by both. `vector` and `hybrid` ' +
    'need an embedder, and find documents of namespaces with `embed`.',
  values: 'Whether documents come with their value and metadata.',
  filter:
    'Conditions on members of the value: `{"status": "open", "priority": {"$gte": 2}}`. Operators: $eq, $ne, ' +
    '$gt, $gte, $lt, $lte, $in, $nin. `a.b` is the member `b` of `a`.',
  sort: 'A member of the value to sort by instead of the score; with `-` before it, the highest first.',
};

const text = (name: keyof typeof about): z.ZodOptional<z.ZodString> =>
  z.string().min(1).optional().describe(about[name]);

const shared = {
  q: text('q'),
  namespace: text('namespace'),
  prefix: text('prefix'),
  project: text('project'),
  room: text('room'),
  agent: text('agent'),
  since: text('since'),
  until: text('until'),
  mode: z.enum(findModes).optional().describe(about.mode),
};

const hitSchema = z
  .object({
    kind: kinds,
    namespace: z.string().optional().describe('Of a document'),
    key: z.string().optional().describe('Of a document'),
    project_id: z.string().optional().describe('Of a task'),
    room_id: z.string().optional().describe('Of a message'),
    room: z.string().optional().describe('The name of the room of a message'),
    id: z.string().optional().describe('Of a task or a message'),
    score: z
      .number()
      .nullable()
      .describe(
        'From 0 to 1. By words: 0.5 or more if the result has all words. By meaning: 0.5 for a right angle, 1 for ' +
          'the same direction. Null without words.',
      ),
    excerpt: z.string().describe('The part of the text with the most words of the search'),
    marks: z
      .array(z.tuple([z.int(), z.int()]))
      .describe('Start and end of each matched word in the excerpt, in UTF-16 units'),
    author: z.string().nullable().describe('The agent of the last write, or the identity of a message'),
    time: z.string().describe('When it was last written: ISO 8601 in UTC'),
    version: z.int(),
    value: json.optional().describe('With `values`'),
    metadata: z.record(z.string(), z.unknown()).optional().describe('With `values`'),
    created_at: z.string().optional().describe('With `values`'),
  })
  .meta({ id: 'FindHit' });

const pageSchema = z
  .object({
    items: z.array(hitSchema),
    next_cursor: z.string().nullable(),
    examined_all: z
      .boolean()
      .describe('False: the search stopped at a limit; `next_cursor` continues where it stopped'),
  })
  .meta({ id: 'FindPage' });

export const findSchemas = {
  search: {
    description:
      'Finds only what the caller may read. Entries with all words come first, then entries with most of them.',
    query: z.object({
      ...shared,
      q: z.string().min(1).describe(about.q),
      in: z
        .string()
        .transform((list) => list.split(','))
        .pipe(z.array(kinds))
        .optional()
        .meta({ description: `${about.in} Separated by commas.`, type: 'string' }),
      values: queryBoolean().optional().meta({ description: about.values }),
      ...pageQuery,
    }),
    answers: { 200: pageSchema },
  },
  query: {
    description:
      'With `q`, the filter applies to what the words find. Without `q`, documents are read in the order of ' +
      'their keys, at most `findDocumentsExaminedMax` for one answer.',
    body: z
      .strictObject({
        ...shared,
        in: z.array(kinds).min(1).optional().describe(about.in),
        filter: z.record(z.string(), json).optional().describe(about.filter),
        sort: z.string().min(1).optional().describe(about.sort),
        values: z.boolean().optional().describe(about.values),
        limit: z.int().min(1).optional().describe('Results on the page'),
        cursor: z.string().min(1).max(4_096).optional().describe('The `next_cursor` of the previous page'),
      })
      .meta({ id: 'FindRequest' }),
    answers: { 200: pageSchema },
  },
  reindex: {
    description:
      'Reads the records and writes the index again, in steps. Searches find everything meanwhile. A second request ' +
      'for the same things joins the first, and a server that was killed continues after its start. A user files ' +
      `their own things; the operator without \`Stoa-User\` files everything. ${progressAbout}`,
    body: z
      .strictObject({ namespace: z.string().min(1).optional().describe('Only documents of this namespace') })
      .default({})
      .meta({ id: 'Reindex' }),
    answers: {
      200: z
        .object({
          filed: z.int().describe('Documents, tasks and messages that were filed again'),
          removed: z.int().describe('Entries that were removed, because nothing belonged to them'),
        })
        .meta({ id: 'ReindexReport' }),
    },
  },
} satisfies SchemasOf<typeof find>;
