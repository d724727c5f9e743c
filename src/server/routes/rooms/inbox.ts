/** The handlers of direct messages under /v1. */
import { inbox } from '../../../api/rooms/operations.js';
import { isoTime } from '../../../core/text/iso-time.js';
import { inboxSchemas } from '../../../api/rooms/schemas.js';
import { nobodyId } from '../../../messaging/identities/authors.js';
import type { DirectMessage } from '../../../messaging/model.js';
import { userOf } from '../../../messaging/rooms/visibility.js';
import { disconnectSignal } from '../../request/disconnection.js';
import { routesOf } from '../../route.js';
import { admitAgain, signatureOf } from '../messaging/gate.js';
import { admit, wantsStream } from './admission.js';
import { shownInboxMessage } from './shown.js';
import { nextCursor, spanOf } from './span.js';
import { positionOf, streamTopic } from './stream.js';

export const inboxRoutes = routesOf('inbox', inbox, inboxSchemas, {
  list: async (context) => {
    const { caller, query, headers, request, reply, streams } = context;
    const messaging = await admit(context);
    const { direct, limits, port } = messaging;
    const agentId = await direct.readerOf(caller);
    const to = { user: userOf(caller), verify: query.verify === true };
    if (wantsStream(request)) {
      const first = query.pending === true ? (await port.pending(agentId, 0, 1)).items[0] : undefined;
      return streamTopic(context, streams, messaging, {
        topic: { kind: 'inbox', id: agentId },
        fromMs: positionOf(headers['last-event-id'], query.after) ?? (first && first.tsMs - 1),
        // The hub returns direct messages for an inbox.
        show: (message, authors) => shownInboxMessage(message as DirectMessage, authors, to),
        isHidden: async () => (await direct.readerOf(caller)) !== agentId,
        ...(agentId === nobodyId && { until: (ended) => direct.firstInbox(caller, { signal: ended }) }),
      });
    }
    const given = spanOf(query, limits.directPageMax, limits.directPageMax);
    const isPending = query.pending === true;
    const span = isPending && !('afterMs' in given) ? { afterMs: 0, limit: given.limit } : given;
    const waitMs = Math.min(query.wait ?? 0, limits.longPollSecondsMax) * 1000;
    const page =
      isPending && 'afterMs' in span
        ? await direct.pending(caller, span.afterMs, span.limit, waitMs, disconnectSignal(reply))
        : await direct.read(caller, span, waitMs, disconnectSignal(reply));
    if (waitMs > 0) await admitAgain(request);
    const authors = await messaging.authors.of(page.items);
    return {
      items: page.items.map((message) => shownInboxMessage(message, authors, to)),
      next_cursor: nextCursor(page, span),
    };
  },
  send: async (context) => {
    const { caller, body, request, idempotency } = context;
    const messaging = await admit(context);
    const { id, tsMs, recipient } = await messaging.direct.send(
      caller,
      { to: body.to, byName: true },
      { body: body.body },
      signatureOf(request),
      idempotency,
    );
    return { id, to: recipient, ts: isoTime(tsMs) };
  },
  acknowledge: async (context) => {
    const messaging = await admit(context);
    return { acknowledged: await messaging.direct.acknowledge(context.caller, context.body.ids) };
  },
});
