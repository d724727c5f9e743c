/** Direct messages over HTTP: sending, the inbox, what is pending, acknowledging. */
import { z } from 'zod';
import { addressOf } from '../caller-address.js';
import { goneSignal } from '../gone.js';
import { authenticated, defineRoute } from '../route.js';
import { limited, signatureOf } from './messaging-gate.js';
import { newestFirst, nextCursorOf, pagingParameters, spanOf, waitMsOf } from './messaging-rooms.js';
import { directSchema, isSet, looseQuery, readFields, shownDirect } from './messaging-wire.js';

const inboxSchema = z
  .object({
    messages: z.array(directSchema),
    has_more: z.boolean().optional(),
    next_cursor: z.string().optional(),
  })
  .meta({ id: 'Inbox' });

export const directRoutes = [
  defineRoute({
    method: 'GET',
    path: '/dm',
    summary: "One's inbox, newest first; with pending=1 what is not acknowledged, oldest first",
    tags: ['messaging'],
    principals: authenticated,
    consumes: null,
    query: looseQuery({
      ...pagingParameters,
      pending: '1 gives only what is not acknowledged, oldest first: the same again until it is.',
    }),
    answers: { 200: inboxSchema },
    handler: limited(async ({ caller, query, request, reply }, messaging) => {
      const agentId = await messaging.direct.readerOf(caller);
      const { directPageMax } = messaging.limits;
      const span = spanOf(query, directPageMax, directPageMax);
      const verify = isSet(query, 'verify');
      const waitMs = waitMsOf(query, messaging);
      if (isSet(query, 'pending')) {
        const afterMs = 'afterMs' in span ? span.afterMs : 0;
        const page = await messaging.direct.pending(agentId, afterMs, span.limit, waitMs, goneSignal(reply));
        if (waitMs > 0) await messaging.gate.admitAgain(addressOf(request));
        return {
          messages: page.items.map((message) => shownDirect(message, verify)),
          has_more: page.hasMore,
          ...nextCursorOf(page, { afterMs, limit: span.limit }),
        };
      }
      const page = await messaging.direct.read(agentId, span, waitMs, goneSignal(reply));
      if (waitMs > 0) await messaging.gate.admitAgain(addressOf(request));
      return {
        messages: newestFirst(page, span).map((message) => shownDirect(message, verify)),
        has_more: page.hasMore,
        ...nextCursorOf(page, span),
      };
    }),
  }),
  defineRoute({
    method: 'POST',
    path: '/dm/ack',
    summary: 'Acknowledge direct messages, so that they are not delivered again',
    tags: ['messaging'],
    principals: authenticated,
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    query: looseQuery({}),
    body: z.looseObject({ ids: z.array(z.string()) }).meta({ id: 'Acknowledgement' }),
    answers: { 200: z.object({ acknowledged: z.int() }) },
    handler: limited(async ({ caller, request, rawBody }, messaging) => ({
      acknowledged: await messaging.direct.acknowledge(
        caller,
        readFields(request, rawBody, { ids: 'texts' }).ids,
      ),
    })),
  }),
  defineRoute({
    method: 'POST',
    path: '/dm/{id}',
    summary: 'Send a direct message; the body is opaque to the server',
    tags: ['messaging'],
    principals: authenticated,
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    params: z.object({ id: z.string() }),
    query: looseQuery({}),
    body: z.looseObject({ body: z.string() }).meta({ id: 'NewDirectMessage' }),
    answers: { 201: z.object({ id: z.string(), ts: z.int() }) },
    handler: limited(async ({ caller, params, request, rawBody }, messaging) => {
      const message = await messaging.direct.send(
        caller,
        params.id,
        readFields(request, rawBody, { body: 'text' }),
        signatureOf(request),
      );
      return { id: message.id, ts: message.tsMs };
    }),
  }),
];
