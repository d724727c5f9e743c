/** A room or the inbox as server-sent events under /v1: from `Last-Event-ID` on, without gaps and repeats. */
import type { Topic } from '../../../messaging/messages/hub.js';
import type { KnownAuthor } from '../../../messaging/identities/standing.js';
import type { DirectMessage, Message } from '../../../messaging/model.js';
import type { MessagingService } from '../../../messaging/service.js';
import type { EventStream, EventStreams, StreamEvent } from '../../answer/event-stream.js';
import { streaming } from '../../route.js';
import { TopicStream, startOf } from '../messaging/topic-stream.js';
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
  const { authors } = messaging;
  let positionMs = await startOf(messaging, topic, fromMs);
  const position = (): string => String(positionMs);
  const followed = new TopicStream({ request, reply, streams }, messaging, { position, isHidden });
  const events = new OrderedEvents(followed.stream);
  followed.follow(topic, positionMs, {
    onMessage: (_topic, message) =>
      events.send(async () => {
        const data = show(message, await authors.of([message]));
        positionMs = message.tsMs;
        return { event: 'message', id: position(), data };
      }),
    onDeleted: (_topic, id) => events.send(async () => ({ event: 'deleted', data: { id } })),
    onImported: () => events.send(async () => ({ event: 'imported', data: {} })),
    drained: () => events.drained(),
  });
  if (until !== undefined) {
    const ended = new AbortController();
    followed.onEnd(() => ended.abort());
    void until(ended.signal).then(followed.end, followed.end);
  }
  return streaming;
}

/** Events of a stream in the order of their arrival, although each message waits for its author. */
class OrderedEvents {
  readonly #stream: EventStream;
  #sent: Promise<void> = Promise.resolve();

  constructor(stream: EventStream) {
    this.#stream = stream;
  }

  send(make: () => Promise<StreamEvent>): void {
    this.#sent = this.#sent
      .then(async () => {
        const event = await make();
        if (!this.#stream.ended) this.#stream.send(event);
      })
      .catch(() => this.#stream.end());
  }

  async drained(): Promise<void> {
    await this.#sent;
    await this.#stream.drained();
  }
}
