/** Messages inside a commit: in the name of the caller, or of an agent that signed the message itself. */
import { StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { SignatureCheck } from '../messaging/authentication.js';
import type { DirectMessages } from '../messaging/direct.js';
import type { CheckedSignature } from '../messaging/proof.js';
import type { Rooms } from '../messaging/rooms.js';
import type { Operation } from './schemas.js';

/** What of messaging a commit needs. */
export interface MessagingPart {
  rooms: Rooms;
  direct: DirectMessages;
  signatures: SignatureCheck;
}

type Post = Extract<Operation, { op: 'room.post' }>;
type Send = Extract<Operation, { op: 'dm.send' }>;
type Signed = NonNullable<Post['signed']>;

export async function postToRoom(
  part: MessagingPart,
  caller: Caller,
  { room: id, body, pid = '', key, signed }: Post,
): Promise<{ id: string; ts: number; room: string }> {
  const author = await authorOf(part, caller, body, signed);
  const room = await part.rooms.enter(caller, id, { key, address: caller.address });
  const message = await part.rooms.post(author.caller, room, { body, pid }, author.signature);
  return { id: message.id, ts: message.tsMs, room: room.id };
}

/** Whether an operation says something. */
export function isMessage(operation: Operation): operation is Post | Send {
  return operation.op === 'room.post' || operation.op === 'dm.send';
}

export async function sendDirect(
  part: MessagingPart,
  caller: Caller,
  { to, body, signed }: Send,
): Promise<{ id: string; ts: number }> {
  const author = await authorOf(part, caller, body, signed);
  const message = await part.direct.send(author.caller, to, { body }, author.signature);
  return { id: message.id, ts: message.tsMs };
}

async function authorOf(
  { signatures }: MessagingPart,
  caller: Caller,
  body: string,
  signed: Signed | undefined,
): Promise<{ caller: Caller; signature: CheckedSignature | null }> {
  if (signed === undefined) return { caller, signature: null };
  if (bodyIn(signed.request) !== body) {
    throw new StoaError('invalid_request', 'The signed request holds another body than the operation.', {
      details: { field: 'signed.request' },
    });
  }
  const headers = {
    'x-aicq-agent': signed.agent,
    'x-aicq-nonce': signed.nonce,
    'x-aicq-timestamp': signed.timestamp,
    'x-aicq-signature': signed.signature,
  };
  const { identity, signature, durable } = await signatures.verify({
    method: 'POST',
    targetUri: '/v1/commit',
    headers,
    rawBody: Buffer.from(signed.request),
  });
  await durable;
  return { caller: { ...caller, identity: identity.id }, signature };
}

function bodyIn(request: string): unknown {
  try {
    return (JSON.parse(request) as { body?: unknown } | null)?.body;
  } catch (error) {
    throw new StoaError('invalid_request', 'The signed request is not JSON.', {
      cause: error,
      details: { field: 'signed.request' },
    });
  }
}
