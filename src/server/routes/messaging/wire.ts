/**
 * Reads messaging requests and writes answers with AICQ's field names. Invalid values are ignored as AICQ
 * does.
 */
import type { z } from 'zod';
import type {
  channelSchema,
  directSchema,
  keySchema,
  messageSchema,
  profileSchema,
} from '../../../api/messaging/schemas.js';
import type { FastifyRequest } from 'fastify';
import type { EventStreams } from '../../answer/event-stream.js';
import type { DirectMessage, Identity, IdentityKey, Message, Room } from '../../../messaging/model.js';
import { isoTime } from '../../../core/text/iso-time.js';
import { shownProof } from '../../../messaging/identities/proof.js';
import { refuse } from '../../../messaging/refusals.js';
import type { SearchPosition } from '../../../messaging/rooms/search.js';
import { latestTimeMs } from '../../../messaging/messages/ulid.js';

/** The type of a field. A missing field and null become the empty value of the type. */
interface FieldKinds {
  text: string;
  flag: boolean;
  texts: string[];
}

type Fields<Shape extends Record<string, keyof FieldKinds>> = {
  [Name in keyof Shape]: FieldKinds[Shape[Name]];
};

/** The fields of a JSON body. Names are not case-sensitive; unknown fields are ignored. */
export function readFields<const Shape extends Record<string, keyof FieldKinds>>(
  request: FastifyRequest,
  rawBody: Buffer,
  shape: Shape,
): Fields<Shape> {
  const given = parseObject(request, rawBody);
  const fields: Record<string, unknown> = {};
  for (const name in shape) fields[name] = readField(fieldOf(given, name), shape[name] as keyof FieldKinds);
  // Every name of the shape was read as its type above.
  return fields as Fields<Shape>;
}

/** The given names that the body has; null stays null. */
export function readOptionalTexts(
  request: FastifyRequest,
  rawBody: Buffer,
  names: readonly string[],
): Record<string, string | null> {
  const given = parseObject(request, rawBody);
  const fields: Record<string, string | null> = {};
  for (const name of names) {
    const value = fieldOf(given, name);
    if (value === undefined) continue;
    if (value !== null && typeof value !== 'string') throw refuse('json');
    fields[name] = value;
  }
  return fields;
}

function parseObject(request: FastifyRequest, rawBody: Buffer): Readonly<Record<string, unknown>> {
  const given = request.headers['content-type'];
  // Nearly all clients send exactly this.
  if (given !== 'application/json') {
    const mediaType = given?.split(';', 1)[0]?.trim().toLowerCase();
    if (mediaType !== 'application/json' && (rawBody.length > 0 || mediaType !== undefined))
      throw refuse('contentType');
  }
  let value: unknown;
  try {
    value = JSON.parse(rawBody.toString());
  } catch (error) {
    throw refuse('json', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refuse('json');
  // The value is an object and not a list.
  return value as Readonly<Record<string, unknown>>;
}

/** A name in its exact spelling wins over the same name in another case; among those the last one wins. */
function fieldOf(given: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(given, name)) return given[name];
  const spelling = Object.keys(given).findLast((each) => each.toLowerCase() === name);
  return spelling === undefined ? undefined : given[spelling];
}

function readField(value: unknown, kind: keyof FieldKinds): unknown {
  if (kind === 'text') return readAs(value, '', (given) => typeof given === 'string');
  if (kind === 'flag') return readAs(value, false, (given) => typeof given === 'boolean');
  return readAs(
    value,
    [],
    (given) => Array.isArray(given) && given.every((item) => typeof item === 'string'),
  );
}

function readAs(value: unknown, nothing: unknown, fits: (given: unknown) => boolean): unknown {
  if (value === undefined || value === null) return nothing;
  if (!fits(value)) throw refuse('json');
  return value;
}

export type Query = Readonly<Record<string, unknown>>;

export function textOf(query: Query, name: string): string | undefined {
  const value = query[name];
  const last = Array.isArray(value) ? (value.at(-1) as unknown) : value;
  return typeof last === 'string' && last !== '' ? last : undefined;
}

/** A whole number of at least 1, or undefined for anything else. */
export function numberOf(query: Query, name: string): number | undefined {
  const value = timeOf(query, name) ?? 0;
  return value > 0 ? value : undefined;
}

/** A time in milliseconds, including 0, or undefined for anything else. */
export function timeOf(query: Query, name: string): number | undefined {
  const text = textOf(query, name);
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** An invalid value becomes the default, a larger one the maximum. */
export function limitOf(query: Query, fallback: number, max: number): number {
  return Math.min(numberOf(query, 'limit') ?? fallback, max);
}

export function isSet(query: Query, name: string): boolean {
  const text = textOf(query, name);
  return text !== undefined && text !== '0' && text !== 'false';
}

/** A position in a room or an inbox, with the direction of reading. */
export interface Cursor {
  direction: 'before' | 'after';
  tsMs: number;
}

export function encodeCursor({ direction, tsMs }: Cursor): string {
  return Buffer.from(`${direction === 'before' ? 'b' : 'a'}${tsMs}`).toString('base64url');
}

export function decodeCursor(text: string): Cursor {
  const [direction, digits] = cursorParts(text, /^([ab])(\d{1,15})$/);
  return { direction: direction === 'b' ? 'before' : 'after', tsMs: cursorTime(digits) };
}

/** The position where a search continues: before a time, or after the last message shown. */
export function encodeSearchCursor({ beforeMs, last }: SearchPosition): string {
  const place = last === null ? '' : ` ${last.roomId} ${last.messageId}`;
  return Buffer.from(`s${beforeMs}${place}`).toString('base64url');
}

export function decodeSearchCursor(text: string): SearchPosition {
  const [digits, roomId, messageId] = cursorParts(text, /^s(\d{1,15})(?: ([0-9a-f-]{36}) ([0-9A-Z]{26}))?$/);
  const last = roomId === undefined || messageId === undefined ? null : { roomId, messageId };
  return { beforeMs: cursorTime(digits), last };
}

/** The groups of a cursor's text; refuses a cursor that this server did not make. */
function cursorParts(text: string, pattern: RegExp): (string | undefined)[] {
  const decoded = Buffer.from(text, 'base64url').toString('latin1');
  const found = pattern.exec(decoded);
  if (found === null || Buffer.from(decoded, 'latin1').toString('base64url') !== text) throw refuse('cursor');
  return found.slice(1);
}

function cursorTime(digits: string | undefined): number {
  const tsMs = Number(digits);
  if (!(tsMs <= latestTimeMs)) throw refuse('cursor');
  return tsMs;
}

/** AICQ's times: seconds, UTC. */
export function secondsIso(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, -'.000Z'.length)}Z`;
}

/** A proof that nobody asked for is not read: it would be parsed for that. */
function shownSignature(
  message: Pick<Message, 'proof' | 'body'>,
  verify: boolean,
): Pick<z.output<typeof messageSchema>, 'sig' | 'proof'> {
  if (!verify) return {};
  const { proof, body } = message;
  return proof === null ? {} : { sig: proof.signature, proof: shownProof(proof, body) };
}

export function shownMessage(message: Message, verify: boolean): z.output<typeof messageSchema> {
  const { id, from, body, parentId, tsMs, serverSigned } = message;
  return {
    id,
    from,
    body,
    ...(parentId !== null && { pid: parentId }),
    ts: tsMs,
    ...(serverSigned && { server_signed: true as const }),
    ...shownSignature(message, verify),
  };
}

export function shownDirect(message: DirectMessage, verify: boolean): z.output<typeof directSchema> {
  const { id, from, body, tsMs, serverSigned, acknowledged } = message;
  return {
    id,
    from,
    body,
    ts: tsMs,
    ...(acknowledged && { acknowledged: true as const }),
    ...(serverSigned && { server_signed: true as const }),
    ...shownSignature(message, verify),
  };
}

export function shownProfile(identity: Identity): z.output<typeof profileSchema> {
  const { id, name, email, publicKey, createdAtMs, proven, serverKept } = identity;
  return {
    id,
    ...(name !== null && { name }),
    ...(email !== null && { email }),
    public_key: publicKey,
    joined_at: secondsIso(createdAtMs),
    ...(proven && { proven: true as const }),
    ...(serverKept && { server_kept: true as const }),
  };
}

export function shownKey({ publicKey, fromMs, untilMs, proof }: IdentityKey): z.output<typeof keySchema> {
  return {
    public_key: publicKey,
    from: isoTime(fromMs),
    ...(untilMs !== null && { until: isoTime(untilMs) }),
    ...(proof !== null && { sig: proof.signature, proof: shownProof(proof, publicKey) }),
  };
}

export function shownChannel(room: Room): z.output<typeof channelSchema> {
  return {
    id: room.id,
    name: room.name,
    message_count: room.messageCount,
    last_active: secondsIso(room.lastActiveAtMs),
  };
}

/** Open streams used the old key and link; a client that connects again is checked again. */
export function endStreamsOf(streams: EventStreams, identity: string): void {
  streams.endOf((caller) => caller.identity === identity);
}
