/** The handlers of direct messages. */
import { aicqDirect } from '../../../api/messaging/operations.js';
import { aicqDirectSchemas } from '../../../api/messaging/schemas.js';
import { disconnectSignal } from '../../request/disconnection.js';
import { routesOf } from '../../route.js';
import { admitAgain, limited, signatureOf } from './gate.js';
import { newestFirst, newestPages, nextCursorOf, spanOf, waitMsOf } from './rooms.js';
import { streamInbox } from './streams.js';
import { isSet, readFields, shownDirect } from './wire.js';

export const directRoutes = routesOf('aicqDirect', aicqDirect, aicqDirectSchemas, {
  read: limited(async ({ caller, query, request, reply }, messaging) => {
    const inboxes = await messaging.direct.inboxesOf(caller);
    const [agentId] = inboxes;
    const { directPageMax } = messaging.limits;
    const span = spanOf(query, directPageMax, directPageMax);
    const verify = isSet(query, 'verify');
    const waitMs = waitMsOf(query, messaging);
    if (isSet(query, 'pending')) {
      const afterMs = 'afterMs' in span ? span.afterMs : 0;
      const page = await messaging.direct.pending(
        caller,
        afterMs,
        span.limit,
        waitMs,
        disconnectSignal(reply),
      );
      if (waitMs > 0) await admitAgain(request);
      return {
        messages: page.items.map((message) => shownDirect(message, verify)),
        has_more: page.hasMore,
        ...nextCursorOf(page, { afterMs, limit: span.limit }),
      };
    }
    const isKeepable = waitMs === 0 && inboxes.length === 1;
    const readPage = async () => {
      // A kept page is of exactly this inbox; a reader that waits may get an inbox meanwhile.
      const page = isKeepable
        ? await messaging.port.inbox(agentId, span)
        : await messaging.direct.read(caller, span, waitMs, disconnectSignal(reply));
      if (waitMs > 0) await admitAgain(request);
      return {
        messages: newestFirst(page, span).map((message) => shownDirect(message, verify)),
        has_more: page.hasMore,
        ...nextCursorOf(page, span),
      };
    };
    if (verify || !isKeepable) return readPage();
    const { directRetentionSeconds: retentionSeconds } = messaging.limits;
    const topic = { kind: 'inbox', id: agentId } as const;
    const revision = messaging.port.revision(topic);
    return newestPages.page(messaging.port, { topic, span, retentionSeconds, revision }, readPage);
  }),
  acknowledge: limited(async ({ caller, request, rawBody }, messaging) => ({
    acknowledged: await messaging.direct.acknowledge(
      caller,
      readFields(request, rawBody, { ids: 'texts' }).ids,
    ),
  })),
  send: limited(async ({ caller, params, request, rawBody, idempotency }, messaging) => {
    const message = await messaging.direct.send(
      caller,
      { to: params.to },
      readFields(request, rawBody, { body: 'text' }),
      signatureOf(request),
      idempotency,
    );
    return { id: message.id, ts: message.tsMs };
  }),
  stream: streamInbox,
});
