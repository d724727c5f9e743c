/** What a search answers. */
import { z } from 'zod';
import { json } from '../datastore/schemas.js';
import { findKinds } from './model.js';

/** A document has `namespace` and `key`, a task `project_id` and `id`, a message `room_id` and `id`. */
const hitSchema = z
  .object({
    kind: z.enum(findKinds),
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

export const findPageSchema = z
  .object({
    items: z.array(hitSchema),
    next_cursor: z.string().nullable(),
    examined_all: z
      .boolean()
      .describe('False: the search stopped at a limit; `next_cursor` continues where it stopped'),
  })
  .meta({ id: 'FindPage' });

export type FindPage = z.output<typeof findPageSchema>;
export type FindHit = FindPage['items'][number];
