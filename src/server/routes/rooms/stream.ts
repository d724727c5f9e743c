/** A room or the inbox as server-sent events under /v1: from `Last-Event-ID` on, without gaps and repeats. */
import type { Topic } from '../../../messaging/messages/hub.js';
import type { KnownAuthor } from '../../../messaging/identities/standing.js';
import type { DirectMessage, Message } from '../../../messaging/model.js';
import type { MessagingService } from '../../../messaging/service.js';
import type { EventStreams } from '../../answer/event-stream.js';
import { addressOf } from '../../request/caller-address.js';
import { streaming } from '../../route.js';
import type { Asked } from './admission.js';

export interface StreamedTopic {
  topic: Topic;
  /** The position that the reader names; undefined begins with the next message. */
  fromMs: number | undefined;
  show: (message: Message | DirectMessage, authors: ReadonlyMap<string, KnownAuthor>) => object;
  /** Whether the caller may no longer read the topic. Checked while the stream is idle. */
  isHidden: () => Promise<boolean>;
  /** The stream ends when this resolves, and the reader connects again. The signal is the end of the stream. */
  until?: (ended: AbortSignal) => Promise<void>;
}

/** The position of `Last-Event-ID`, or of `after`. */
export function positionOf(lastEventId: string | undefined, after: string | undefined): number | undefined {
  if (lastEventId !== undefined && /^\d{1,15}$/.test(lastEventId)) return Number(lastEventId);
  return after === undefined ? undefined : Date.parse(after);
}

export async function streamTopic(
  { request, reply }: Asked,
  streams: EventStreams,
  messaging: MessagingService,
  { topic, fromMs, show, isHidden, until }: StreamedTopic,
): Promise<typeof streaming> {
  const { port, authors, hub, gate } = messaging;
  const span = { beforeMs: null, limit: 1 };
  const { items } =
    topic.kind === 'room' ? await port.messages(topic.room, span) : await port.inbox(topic.id, span);
  const newestMs = items[0]?.tsMs ?? 0;
  // A position ahead of the clock would hide messages: such a reader begins with the next message.
  let positionMs =
    fromMs === undefined || fromMs > port.nowMs() ? Math.min(fromMs ?? newestMs, newestMs) : fromMs;
  const stops: (() => void)[] = [];
  const position = () => ({ event: 'position', id: String(positionMs), data: {} });
  const stream = streams.open(reply, {
    onEnd: () => stops.forEach((stop) => stop()),
    onIdle: () => {
      void isHidden().then(
        (hidden) => hidden && stream.end(),
        () => stream.end(),
      );
      return position();
    },
  });
  stream.send(position());
  stops.push(gate.whileAdmitted(addressOf(request), () => stream.end()));
  /** Events leave in the order of their arrival, although each message waits for its author. */
  let sent: Promise<void> = Promise.resolve();
  const send = (make: () => Promise<Parameters<typeof stream.send>[0]>): void => {
    sent = sent
      .then(async () => {
        const event = await make();
        if (!stream.ended) stream.send(event);
      })
      .catch(() => stream.end());
  };
  stops.push(
    hub.follow(topic, positionMs, {
      onMessage: (_topic, message) =>
        send(async () => {
          const data = show(message, await authors.of([message]));
          positionMs = message.tsMs;
          return { event: 'message', id: String(positionMs), data };
        }),
      onDeleted: (_topic, id) => send(async () => ({ event: 'deleted', data: { id } })),
      onImported: () => send(async () => ({ event: 'imported', data: {} })),
      onRemoved: () => stream.end(),
      onFailure: () => stream.end(),
      drained: async () => {
        await sent;
        await stream.drained();
      },
    }),
  );
  if (until !== undefined) {
    const ended = new AbortController();
    stops.push(() => ended.abort());
    const end = (): void => stream.end();
    void until(ended.signal).then(end, end);
  }
  if (stream.ended) stops.forEach((stop) => stop());
  return streaming;
}
