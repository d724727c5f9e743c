/** The schemas of the change feed in the format of the wire. */
import { z } from 'zod';
import { isoTime } from '../core/text/iso-time.js';
import type { FeedCommit } from './port.js';

const changeSchema = z
  .object({
    seq: z.int().describe('The number of the commit; all changes of one commit share it'),
    at: z.iso.datetime().describe('When the commit was made'),
    domain: z.enum(['data', 'registry', 'workspaces', 'locks', 'messaging', 'identity']),
    kind: z.string().describe('What happened, like `agent.created`'),
    id: z.string(),
    user: z.string().nullable(),
    agent: z.string().nullable().describe('The agent that made the change, if one was named'),
    version: z.int().nullable(),
    facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).optional(),
  })
  .meta({ id: 'Change' });

export type ChangeAnswer = z.output<typeof changeSchema>;

export const changePageSchema = z
  .object({
    items: z.array(changeSchema),
    next_cursor: z
      .string()
      .nullable()
      .describe('Where to continue, or null if there are no more changes yet'),
    position: z.string().describe('The position up to which this page was read; send it as `since`'),
    since: z
      .string()
      .nullable()
      .describe('The position after which this page was read; null for the oldest that is stored'),
  })
  .meta({ id: 'ChangePage' });

export type ChangePage = z.output<typeof changePageSchema>;

export function changesOf(commit: FeedCommit): ChangeAnswer[] {
  return commit.changes.map(({ domain, kind, id, user, agent = null, version, facts }) => ({
    seq: commit.seq,
    at: isoTime(commit.atMs),
    domain,
    kind,
    id,
    user,
    agent,
    version,
    ...(facts === undefined ? {} : { facts }),
  }));
}
