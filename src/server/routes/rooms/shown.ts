/** Rooms and messages as /v1 shows them. */
import type { z } from 'zod';
import type { inboxMessageSchema, roomMessageSchema, roomSchema } from '../../../api/rooms/schemas.js';
import type { Limits } from '../../../core/settings/limits.js';
import { isoTime } from '../../../core/text/iso-time.js';
import { shownProof } from '../../../messaging/identities/proof.js';
import { type KnownAuthor, standingFor } from '../../../messaging/identities/standing.js';
import type { DirectMessage, Message, Room } from '../../../messaging/model.js';
import { isPublic, retentionOf } from '../../../messaging/rooms/visibility.js';

type ShownMessage = z.output<typeof roomMessageSchema>;
type ShownDirect = z.output<typeof inboxMessageSchema>;

export function shownRoom(room: Room, limits: Limits): z.output<typeof roomSchema> {
  return {
    id: room.id,
    name: room.name,
    owner: room.owner,
    public: isPublic(room),
    is_private: room.isPrivate,
    retention_seconds: retentionOf(room, limits),
    message_count: room.messageCount,
    created_at: isoTime(room.createdAtMs),
    last_active: isoTime(room.lastActiveAtMs),
    version: room.version,
  };
}

/** Who reads: the user to whom authors are proven, and whether signatures are shown. */
export interface ShowTo {
  user: string | null;
  verify: boolean;
}

type Authors = ReadonlyMap<string, KnownAuthor>;

export function shownRoomMessage(message: Message, authors: Authors, to: ShowTo): ShownMessage {
  const { id, roomId, body, parentId, tsMs } = message;
  return {
    id,
    room_id: roomId,
    ...shownAuthor(message, authors, to),
    body,
    ...(parentId !== null && { pid: parentId }),
    ts: isoTime(tsMs),
    ...shownSignature(message, to),
  };
}

export function shownInboxMessage(message: DirectMessage, authors: Authors, to: ShowTo): ShownDirect {
  const { id, body, tsMs, acknowledged } = message;
  return {
    id,
    ...shownAuthor(message, authors, to),
    body,
    ts: isoTime(tsMs),
    acknowledged,
    ...shownSignature(message, to),
  };
}

function shownAuthor(
  { from }: { from: string },
  authors: Authors,
  { user }: ShowTo,
): Pick<ShownMessage, 'from' | 'from_name' | 'proven'> {
  const author = authors.get(from);
  return { from, from_name: author?.name ?? null, proven: standingFor(user, author) };
}

function shownSignature(
  { proof, body, serverSigned }: Pick<Message, 'proof' | 'body' | 'serverSigned'>,
  { verify }: ShowTo,
): Pick<ShownMessage, 'server_signed' | 'sig' | 'proof'> {
  return {
    ...(serverSigned && { server_signed: true as const }),
    ...(verify && proof !== null && { sig: proof.signature, proof: shownProof(proof, body) }),
  };
}
