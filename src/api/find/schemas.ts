/** The schemas of the search. */
import { z } from 'zod';
import { json } from '../../datastore/schemas.js';
import { findPageSchema } from '../../find/answers.js';
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
  project: 'Only tasks of this project, by its id or name.',
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
    answers: { 200: findPageSchema },
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
        cursor: z.string().min(1).max(8_192).optional().describe('The `next_cursor` of the previous page'),
      })
      .meta({ id: 'FindRequest' }),
    answers: { 200: findPageSchema },
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
