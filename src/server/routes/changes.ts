/** The change feed: pages for those who poll, a stream for those who wait. */
import { z } from 'zod';
import { changePageSchema, changesOf } from '../../changes/schemas.js';
import { StoaError, messageOf } from '../../errors.js';
import type { FeedPage } from '../../kernel/changes.js';
import type { EventStream } from '../event-stream.js';
import { queryInteger } from '../query.js';
import { authenticated, defineRoute, streaming } from '../route.js';

export const changeRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/changes',
    summary: 'What changed, in order, after a position',
    description:
      'As a page, or with `Accept: text/event-stream` as a stream: an event `changes` a commit, with the position as its id; `position` while nothing happens; `resync` when the position is too old. ' +
      'A page starts at the oldest change that is kept, a stream at the newest, unless `since` or `Last-Event-ID` says otherwise.',
    tags: ['changes'],
    principals: authenticated,
    streams: true,
    query: z.object({
      since: z
        .string()
        .min(1)
        .max(4_096)
        .optional()
        .meta({ description: 'A position; what comes after it is answered.' }),
      until: z
        .string()
        .min(1)
        .max(4_096)
        .optional()
        .meta({ description: 'A position; what came after it is left out. Only for pages.' }),
      namespace: z
        .string()
        .max(4_096)
        .optional()
        .meta({ description: 'Only documents of this namespace of the user.' }),
      prefix: z
        .string()
        .max(4_096)
        .optional()
        .meta({ description: 'With `namespace`: only keys that begin with it.' }),
      project: z
        .string()
        .max(256)
        .optional()
        .meta({ description: 'Only this project, its sessions and tasks, and workspaces.' }),
      id: z.string().max(4_096).optional().meta({ description: 'Only the thing with this id.' }),
      topics: z.string().max(4_096).optional().meta({
        description: 'Domains, kinds or nouns of kinds, separated by commas: `registry,document.set`.',
      }),
      limit: queryInteger(1).optional().meta({ description: 'Changes on a page; a commit is never split.' }),
    }),
    headers: z.object({ 'last-event-id': z.string().max(4_096).optional() }),
    answers: { 200: changePageSchema },
    handler: ({ stoa, caller, query, headers, request, reply, streams }) => {
      const topics = query.topics?.split(',').map((topic) => topic.trim());
      if (!wantsStream(request.method, request.headers.accept))
        return stoa.changes.read(caller, { ...query, topics });
      const since = headers['last-event-id'] ?? query.since;
      const stop = new AbortController();
      const pages = stoa.changes.follow(caller, { ...query, since, topics }, stop.signal);
      const stream = streams.open(reply, { onEnd: () => stop.abort() });
      stream.send({
        event: 'position',
        id: since ?? stoa.changes.position,
        data: { position: since ?? stoa.changes.position },
      });
      void forward(pages, stream, (error) => stoa.onError(error, 'a stream of changes'));
      return streaming;
    },
  }),
];

function wantsStream(method: string, accept: string | undefined): boolean {
  return method === 'GET' && accept !== undefined && accept.toLowerCase().includes('text/event-stream');
}

/** Reads on only as fast as the reader takes it, so that a slow one costs nothing but its place in the log. */
async function forward(
  pages: AsyncGenerator<FeedPage>,
  stream: EventStream,
  onError: (error: unknown) => void,
): Promise<void> {
  try {
    for await (const page of pages) {
      for (const commit of page.commits) {
        stream.send({
          event: 'changes',
          id: commit.position,
          data: { items: changesOf(commit), position: commit.position },
        });
        await stream.drained();
      }
      if (page.commits.at(-1)?.position !== page.position)
        stream.send({ event: 'position', id: page.position, data: { position: page.position } });
      await stream.drained();
      if (stream.ended) return;
    }
  } catch (error) {
    if (error instanceof StoaError && error.code === 'resync')
      stream.send({
        event: 'resync',
        data: { code: error.code, detail: messageOf(error), ...error.details },
      });
    else onError(error);
  } finally {
    stream.end();
  }
}
