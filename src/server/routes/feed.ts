/** The handlers of the change feed and of the commit across all domains. */
import { changes, commits } from '../../api/feed/operations.js';
import { changeSchemas, commitSchemas } from '../../api/feed/schemas.js';
import { changesOf } from '../../feed/schemas.js';
import { StoaError, messageOf } from '../../core/errors.js';
import type { FeedPage } from '../../feed/port.js';
import type { EventStream } from '../answer/event-stream.js';
import { routesOf, streaming } from '../route.js';

const changeRoutes = routesOf('changes', changes, changeSchemas, {
  read: async ({ stoa, caller, query: given, headers, request, reply, streams }) => {
    const topics = given.topics?.split(',').map((topic) => topic.trim());
    const project =
      given.project === undefined
        ? undefined
        : await stoa.workspaces.references.project(caller, given.project);
    const query = { ...given, topics, project };
    if (!wantsStream(request.method, request.headers.accept)) return stoa.changes.read(caller, query);
    const since = headers['last-event-id'] ?? query.since ?? (await stoa.changes.newest());
    const stop = new AbortController();
    const pages = await stoa.changes.follow(caller, { ...query, since }, stop.signal);
    const stream = streams.open(reply, { onEnd: () => stop.abort() });
    stream.send({ event: 'position', id: since, data: { position: since } });
    void forward(pages, stream, (error) => stoa.onError(error, 'a stream of changes'));
    return streaming;
  },
});

const commitRoutes = routesOf('commits', commits, commitSchemas, {
  create: ({ stoa, caller, body, idempotency }) => stoa.commit.commit(caller, body, idempotency),
});

export const feedRoutes = [...changeRoutes, ...commitRoutes];

function wantsStream(method: string, accept: string | undefined): boolean {
  return method === 'GET' && accept !== undefined && accept.toLowerCase().includes('text/event-stream');
}

/** Reads no faster than the reader receives, so that a slow reader uses no memory. */
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
