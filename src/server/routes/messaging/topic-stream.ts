/** An event stream over rooms or an inbox, which ends when its reader may no longer read them. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Delivery, Topic } from '../../../messaging/messages/hub.js';
import type { MessagingService } from '../../../messaging/service.js';
import type { EventStream, EventStreams } from '../../answer/event-stream.js';
import { addressOf } from '../../request/caller-address.js';

interface Opened {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly streams: EventStreams;
}

interface TopicStreamOptions {
  /** The position of the reader. It goes with the first event, and with events while nothing is new. */
  readonly position: () => string;
  /** Whether the caller may no longer read. Checked while the stream is idle. */
  readonly isHidden: () => Promise<boolean>;
}

/** Where a reader begins: at its position, or with the next message. */
export async function startOf(
  { port }: MessagingService,
  topic: Topic,
  givenMs: number | undefined,
): Promise<number> {
  if (givenMs !== undefined && givenMs <= port.nowMs()) return givenMs;
  const span = { beforeMs: null, limit: 1 };
  const { items } =
    topic.kind === 'room' ? await port.messages(topic.room, span) : await port.inbox(topic.id, span);
  const newestMs = items[0]?.tsMs ?? 0;
  // A position ahead of the clock would hide messages for years.
  return Math.min(givenMs ?? newestMs, newestMs);
}

export class TopicStream {
  readonly stream: EventStream;
  readonly #messaging: MessagingService;
  readonly #stops: (() => void)[] = [];

  constructor(
    { request, reply, streams }: Opened,
    messaging: MessagingService,
    { position, isHidden }: TopicStreamOptions,
  ) {
    this.#messaging = messaging;
    const positioned = () => ({ event: 'position', id: position(), data: {} });
    this.stream = streams.open(reply, {
      onEnd: () => this.#stops.forEach((stop) => stop()),
      onIdle: () => {
        void isHidden().then((hidden) => hidden && this.end(), this.end);
        return positioned();
      },
    });
    // The first event has a position, so that a reader that loses the connection can resume.
    this.stream.send(positioned());
    this.onEnd(messaging.gate.whileAdmitted(addressOf(request), this.end));
  }

  readonly end = (): void => this.stream.end();

  /** Calls back at the end of the stream; at once, if it has ended. */
  onEnd(stop: () => void): void {
    if (this.stream.ended) stop();
    else this.#stops.push(stop);
  }

  follow(topic: Topic, fromMs: number, delivery: Omit<Delivery, 'onRemoved' | 'onFailure'>): void {
    const whole: Delivery = { ...delivery, onRemoved: this.end, onFailure: this.end };
    this.onEnd(this.#messaging.hub.follow(topic, fromMs, whole));
  }
}
