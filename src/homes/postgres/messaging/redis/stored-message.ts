/** The JSON of messages in Redis: the seed's fields first, then the fields of Stoa. */
import type { DirectMessage, Message, Proof } from '../../../../messaging/model.js';
import type { Delivered, NewDirectMessage, NewMessage } from '../../../../messaging/port.js';

interface StoredMessage {
  id: string;
  from: string;
  body: string;
  ts: number;
  room_id?: string;
  to?: string;
  pid?: string;
  sig?: string;
  root?: string;
  server_signed?: boolean;
  proof?: Omit<Proof, 'signature'>;
}

/** The member of a room's sorted set. The scripts write the same text. */
export function messageMember(message: Message): string {
  return memberOf(message, messageParts(message, message.rootId));
}

export function directMember(message: DirectMessage): string {
  return memberOf(message, directParts(message));
}

function memberOf({ id, tsMs }: Delivered, [before, after]: readonly [string, string]): string {
  return `{"id":"${id}",${before},"ts":${tsMs}${after}}`;
}

/** The JSON before and after the time. The script adds the id and the time, which only the script knows. */
export function messageParts(input: NewMessage, rootId: string | null): [string, string] {
  const { roomId, from, body, proof, parentId } = input;
  return aroundTime(
    { room_id: roomId, from, body, ...signatureOf(proof), ...(parentId !== null && { pid: parentId }) },
    { ...(rootId !== null && { root: rootId }), ...stoaFields(input) },
  );
}

export function directParts(input: NewDirectMessage): [string, string] {
  const { from, to, body, proof } = input;
  return aroundTime({ from, to, body }, { ...signatureOf(proof), ...stoaFields(input) });
}

/** `sig` is a field that the seed reserves. */
function signatureOf(proof: Proof | null): Pick<StoredMessage, 'sig'> {
  return proof === null ? {} : { sig: proof.signature };
}

function stoaFields({
  serverSigned,
  proof,
}: Pick<NewMessage, 'serverSigned' | 'proof'>): Partial<StoredMessage> {
  if (proof === null) return serverSigned ? { server_signed: true } : {};
  const { signature: _, ...rest } = proof;
  return { ...(serverSigned && { server_signed: true }), proof: rest };
}

function aroundTime(before: object, after: object): [string, string] {
  const rest = JSON.stringify(after).slice(1, -1);
  return [JSON.stringify(before).slice(1, -1), rest === '' ? '' : `,${rest}`];
}

export function messageOf(member: string): Message {
  const stored = parse(member);
  return {
    id: stored.id,
    roomId: stored.room_id ?? '',
    from: stored.from,
    body: stored.body,
    parentId: stored.pid ?? null,
    rootId: stored.root ?? null,
    tsMs: stored.ts,
    proof: proofOf(stored),
    serverSigned: stored.server_signed ?? false,
  };
}

export function directOf(member: string): DirectMessage {
  const stored = parse(member);
  return {
    id: stored.id,
    from: stored.from,
    to: stored.to ?? '',
    body: stored.body,
    tsMs: stored.ts,
    proof: proofOf(stored),
    serverSigned: stored.server_signed ?? false,
    acknowledged: false,
  };
}

/** Members are written by the scripts of this folder, or by an AICQ server with the seed's fields. */
function parse(member: string): StoredMessage {
  return JSON.parse(member) as StoredMessage;
}

function proofOf({ sig, proof }: StoredMessage): Proof | null {
  return sig === undefined || proof === undefined ? null : { ...proof, signature: sig };
}
