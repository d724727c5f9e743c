/** Rooms and inboxes as server-sent events: from `Last-Event-ID` on, without gaps and repeats. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Topic } from '../../../messaging/messages/hub.js';
import type { DirectMessage, Message } from '../../../messaging/model.js';
import { refuse } from '../../../messaging/refusals.js';
import type { MessagingService } from '../../../messaging/service.js';
import { canonicalUuid } from '../../../messaging/identities/uuid.js';
import { type EventStreams, type StreamEvent, eventText } from '../../answer/event-stream.js';
import { streaming } from '../../route.js';
import { accessOf, byId, limited } from './gate.js';
import { TopicStream, startOf } from './topic-stream.js';
import type { Caller } from '../../../core/caller.js';
import { canSeeRoom } from '../../../messaging/rooms/visibility.js';
import { type Query, isSet, shownDirect, shownMessage, textOf, timeOf } from './wire.js';

/** The reader's position in each topic of the stream. */
type Positions = Map<string, number>;

/**
 * A position in many rooms is one line with `room:time` for each, so that any server can continue from it.
 */
function encodePositions(positions: Positions): string {
  if (positions.size === 1) return String([...positions.values()][0]);
  return Array.from(positions, ([id, tsMs]) => `${id}:${tsMs}`).join(',');
}

function decodePositions(text: string, ids: readonly string[]): Positions {
  const positions: Positions = new Map();
  if (/^\d{1,15}$/.test(text)) for (const id of ids) positions.set(id, Number(text));
  for (const [, id, tsMs] of text.matchAll(/([0-9a-f-]{36}):(\d{1,15})/g))
    if (id !== undefined && ids.includes(id)) positions.set(id, Number(tsMs));
  return positions;
}

interface StreamRequest {
  request: FastifyRequest;
  reply: FastifyReply;
  streams: EventStreams;
  query: Query;
}

/**
 * Converts a message for the streams of one route. All streams share the function, so that the bytes for one
 * reader are used for others.
 */
type Show = (message: Message | DirectMessage, verify: boolean) => unknown;

// A hub returns room messages for a room and direct messages for an inbox.
const showInRoom: Show = (message, verify) => shownMessage(message as Message, verify);
const showInRooms: Show = (message, verify) => ({
  room_id: (message as Message).roomId,
  ...shownMessage(message as Message, verify),
});
const showInInbox: Show = (message, verify) => shownDirect(message as DirectMessage, verify);

/** Where the reader continues in each topic: after its position or time, else with the next message. */
async function startPositions(
  { headers }: StreamRequest['request'],
  query: StreamRequest['query'],
  messaging: MessagingService,
  topics: readonly Topic[],
): Promise<Map<string, number>> {
  const ids = topics.map(({ id }) => id);
  const header = headers['last-event-id'];
  const from = typeof header === 'string' ? header : textOf(query, 'last_event_id');
  const positions = from === undefined ? new Map<string, number>() : decodePositions(from, ids);
  const afterMs = timeOf(query, 'after');
  for (const topic of topics)
    positions.set(topic.id, await startOf(messaging, topic, positions.get(topic.id) ?? afterMs));
  return positions;
}

/** Opens one stream over all topics. Without a position it begins with the next message. */
async function follow(
  { request, reply, streams, query }: StreamRequest,
  messaging: MessagingService,
  topics: readonly Topic[],
  show: Show,
  isHidden: () => Promise<boolean>,
): Promise<typeof streaming> {
  const verify = isSet(query, 'verify');
  const positions = await startPositions(request, query, messaging, topics);
  const position = (): string => encodePositions(positions);
  const followed = new TopicStream({ request, reply, streams }, messaging, { position, isHidden });
  const { stream } = followed;
  for (const topic of topics)
    followed.follow(topic, positions.get(topic.id) ?? 0, {
      onMessage: (_topic, message) => {
        positions.set(topic.id, message.tsMs);
        const event = () => ({ event: 'message', id: position(), data: show(message, verify) });
        // In a stream of one topic an event is the same for every reader, so its bytes are made once.
        if (topics.length === 1) stream.pass(sharedBytes({ message, show, verify }, event));
        else stream.send(event());
      },
      onDeleted: (_topic, messageId) =>
        stream.send({ event: 'deleted', data: { room_id: topic.id, id: messageId } }),
      onImported: () => stream.send({ event: 'imported', data: { room_id: topic.id } }),
      drained: () => stream.drained(),
    });
  return streaming;
}

interface Shown {
  message: Message | DirectMessage;
  show: Show;
  verify: boolean;
}

/** The latest event, which a thousand readers may be about to get. */
let lastShared: (Shown & { bytes: Buffer }) | undefined;

function sharedBytes({ message, show, verify }: Shown, make: () => StreamEvent): Buffer {
  if (lastShared?.message === message && lastShared.show === show && lastShared.verify === verify)
    return lastShared.bytes;
  const bytes = Buffer.from(eventText(make()));
  lastShared = { message, show, verify, bytes };
  return bytes;
}

/** Whether a room of the stream was deleted, or no longer belongs to the caller. */
async function isHidden(
  { port }: MessagingService,
  caller: Caller | null,
  topics: readonly Topic[],
): Promise<boolean> {
  const rooms = await port.rooms(topics.map(({ id }) => id));
  return topics.some(({ id }) => {
    const room = rooms.get(id);
    return room === undefined || !canSeeRoom(caller, room);
  });
}

export const streamRoom = limited<{ room: string }, undefined, typeof streaming>(
  async ({ caller, params, query, request, reply, streams }, messaging) => {
    const room = await messaging.rooms.enter(caller, byId(params.room), accessOf(request));
    const topics: Topic[] = [{ kind: 'room', id: room.id, room }];
    return follow({ request, reply, streams, query }, messaging, topics, showInRoom, () =>
      isHidden(messaging, caller, topics),
    );
  },
);

export const streamRooms = limited<undefined, undefined, typeof streaming>(
  async ({ caller, query, request, reply, streams }, messaging) => {
    const named = [...new Set((textOf(query, 'rooms') ?? '').split(',').filter((id) => id !== ''))];
    if (named.length === 0) throw refuse('roomsMissing');
    if (named.length > messaging.limits.roomsPerStreamMax) throw refuse('roomsMany');
    const topics: Topic[] = [];
    for (const id of named) {
      const room = await messaging.rooms.enter(caller, byId(canonicalUuid(id) ?? id), accessOf(request));
      if (!topics.some((topic) => topic.id === room.id)) topics.push({ kind: 'room', id: room.id, room });
    }
    return follow({ request, reply, streams, query }, messaging, topics, showInRooms, () =>
      isHidden(messaging, caller, topics),
    );
  },
);

export const streamInbox = limited<undefined, undefined, typeof streaming>(
  async ({ caller, query, request, reply, streams }, messaging) => {
    const agentId = await messaging.direct.readerOf(caller);
    const pending = isSet(query, 'pending') ? await messaging.port.pending(agentId, 0, 1) : undefined;
    const first = pending?.items[0];
    const from = first === undefined ? query : { ...query, after: String(first.tsMs - 1) };
    return follow(
      { request, reply, streams, query: from },
      messaging,
      [{ kind: 'inbox', id: agentId }],
      showInInbox,
      // The agent gets an inbox with its first message; the reader must then connect again.
      async () => (await messaging.direct.readerOf(caller)) !== agentId,
    );
  },
);
