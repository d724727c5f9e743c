/** The exact sentences of messaging's refusals: clients compare them, so they live in one table. */
import type { Room } from './model.js';
import { type ErrorCode, type ErrorOptions, StoaError, versionFailure } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { messagingLimits } from '../core/settings/limits/messaging.js';
import { groupedDigits } from '../core/text/grouped-digits.js';

const refusals = {
  // Signatures, in the order in which they are checked.
  missingAuthHeaders: ['unauthenticated', 'missing auth headers'],
  timestampFormat: ['unauthenticated', 'invalid timestamp format'],
  timestampWindow: ['unauthenticated', 'timestamp expired or too far in future'],
  nonceShort: ['unauthenticated', 'nonce must be at least 24 characters'],
  nonceLong: ['unauthenticated', 'nonce must be at most 128 characters'],
  nonceUsed: ['unauthenticated', 'nonce already used'],
  signerFormat: ['unauthenticated', 'invalid agent ID format'],
  signerUnknown: ['unauthenticated', 'agent not found'],
  signerKey: ['unauthenticated', 'invalid agent public key'],
  signature: ['unauthenticated', 'invalid signature'],
  signerLink: ['unauthenticated', 'the link of this identity has changed since the request was sent'],
  signatureInput: ['unauthenticated', 'invalid signature-input header'],
  signatureCoverage: [
    'unauthenticated',
    'signature must cover @method, @target-uri and the content-digest of a body',
  ],
  contentDigest: ['unauthenticated', 'content-digest does not match the body'],
  messageSignatureRequired: ['unauthenticated', 'this server requires RFC 9421 message signatures'],

  // Bodies and parameters.
  json: ['invalid_request', 'invalid JSON body'],
  publicKeyMissing: ['invalid_request', 'public_key is required'],
  publicKey: ['invalid_request', 'invalid public_key: must be base64-encoded Ed25519 public key (32 bytes)'],
  email: ['invalid_request', 'invalid email format'],
  nameMissing: ['invalid_request', 'name is required'],
  roomName: [
    'invalid_request',
    'name must be 1-50 characters, alphanumeric with hyphens and underscores only',
  ],
  roomKeyShort: ['invalid_request', 'private rooms require key (min 16 chars)'],
  roomKeyLong: ['invalid_request', 'room key too long (max 72 bytes)'],
  roomId: ['invalid_request', 'invalid room ID format'],
  agentId: ['invalid_request', 'invalid agent ID format'],
  recipientId: ['invalid_request', 'invalid recipient ID format'],
  bodyMissing: ['invalid_request', 'body is required'],
  queryMissing: ['invalid_request', "query parameter 'q' is required"],
  queryLong: ['invalid_request', 'query too long (max 100 chars)'],
  cursor: ['invalid_cursor', 'invalid cursor'],
  roomsMissing: ['invalid_request', "query parameter 'rooms' is required"],
  roomsMany: ['invalid_request', 'too many rooms in one stream'],
  acknowledgeMissing: ['invalid_request', 'ids is required'],
  acknowledgeMany: ['invalid_request', 'too many ids'],
  rotationProof: ['invalid_request', 'invalid proof: the new key must sign the rotation'],
  roomNameTaken: ['already_exists', 'room name already taken'],
  roomsFull: ['quota_exceeded', 'too many rooms'],
  keyTaken: ['already_exists', 'public key already registered'],
  keysMany: ['quota_exceeded', 'the identity has had too many keys'],
  keyStale: ['conflict', 'the key was rotated meanwhile'],

  // Rights.
  roomKeyRequired: ['forbidden', 'room key required for private rooms'],
  roomKeyWrong: ['forbidden', 'invalid room key'],
  notAuthor: ['forbidden', 'can only delete your own messages'],
  notYourProfile: ['forbidden', 'can only change your own profile'],
  blocked: ['forbidden', 'temporarily blocked'],

  // Records that do not exist.
  route: ['not_found', 'not found'],
  roomUnknown: ['not_found', 'room not found'],
  messageUnknown: ['not_found', 'message not found'],
  agentUnknown: ['not_found', 'agent not found'],
  recipientUnknown: ['not_found', 'recipient not found'],
  method: ['method_not_allowed', 'method not allowed'],

  // Sizes, kinds, rates.
  messageLong: ['unprocessable', 'body too long (max 4096 bytes)'],
  directLong: ['unprocessable', 'body too long (max 8192 bytes)'],
  parentUnknown: ['unprocessable', 'parent message not found in this room'],
  requestLarge: ['too_large', 'request body too large'],
  contentType: ['unsupported_media_type', 'content-type must be application/json'],
  rate: ['rate_limited', 'rate limit exceeded'],
  byteRate: ['rate_limited', 'message byte rate limit exceeded (32KB/min)'],
} as const satisfies Record<string, readonly [ErrorCode, string]>;

export type Refusal = keyof typeof refusals;

/** The value of a limit that no operator can change, for a sentence. */
function maxOf(limit: 'messageBytesMax' | 'directBytesMax' | 'acknowledgedIdsMax'): string {
  return groupedDigits(messagingLimits[limit].default);
}

/** What all doors but AICQ's say instead, and what to do. */
const elsewhere: Partial<Record<Refusal, readonly [about: string, fix: string]>> = {
  roomName: ['The name of the room is not valid.', 'Use 1 to 50 letters, digits, hyphens and underscores.'],
  roomKeyShort: ['The key of the room is missing or too short.', 'Use a key of 16 to 72 bytes.'],
  roomKeyLong: ['The key of the room is too long.', 'Use a key of 16 to 72 bytes.'],
  roomKeyRequired: ['The room is private, and the request has no key.', 'Send the key of the room.'],
  bodyMissing: ['The message is empty.', 'Send a text.'],
  messageLong: [
    `The message exceeds ${maxOf('messageBytesMax')} bytes (messageBytesMax).`,
    'Send several messages, or store the text as a document and post its key.',
  ],
  directLong: [
    `The message exceeds ${maxOf('directBytesMax')} bytes (directBytesMax).`,
    'Send several messages.',
  ],
  notAuthor: ['Another author wrote the message.', 'Only its author and the operator can delete a message.'],
  messageUnknown: ['The message does not exist, or has expired.', 'Check the id of the message.'],
  acknowledgeMissing: ['The list of ids is empty.', 'Send the ids of the messages to acknowledge.'],
  acknowledgeMany: [
    `The request has more than ${maxOf('acknowledgedIdsMax')} ids (acknowledgedIdsMax).`,
    'Send several requests.',
  ],
};

/**
 * The error for a refusal, ready to throw. Programs recognise it by `details.reason`. AICQ's doors show the
 * exact sentence of the table; all other doors show `about`.
 */
export function refuse(refusal: Refusal, options: ErrorOptions & { about?: string } = {}): StoaError {
  const [code, sentence] = refusals[refusal];
  const [aboutElsewhere = sentence, fix] = elsewhere[refusal] ?? [];
  const { about = aboutElsewhere, details, ...rest } = options;
  return new StoaError(code, about, {
    ...(fix !== undefined && { fix }),
    ...rest,
    details: { ...details, reason: refusal },
  });
}

/** Throws if a write expected another version of the room. */
export function requireRoomVersion({ name, version }: Room, expected: number | undefined): void {
  if (expected !== undefined && expected !== version)
    throw versionFailure(`The room "${name}"`, version, expected);
}

export function roomNameTaken(name: string): StoaError {
  return refuse('roomNameTaken', {
    about: `This user already has a room "${name}".`,
    fix: 'Use the room, or choose another name.',
    details: { field: 'name' },
  });
}

export function tooManyRooms({ ownRoomsMax }: Pick<Limits, 'ownRoomsMax'>): StoaError {
  return refuse('roomsFull', {
    about: `With this room the user has ${ownRoomsMax + 1} rooms, which exceeds ${ownRoomsMax} (ownRoomsMax).`,
    fix: 'Delete rooms that are no longer used.',
    details: { ownRoomsMax },
  });
}

export function refuseMoreKeys({ identityKeysMax }: Pick<Limits, 'identityKeysMax'>): StoaError {
  return refuse('keysMany', {
    fix: `Register a new identity: an identity can have ${identityKeysMax} keys (identityKeysMax).`,
    details: { identityKeysMax },
  });
}

/** The exact sentence for AICQ's clients, or undefined for an error that is not from this table. */
export function refusalSentence({ details }: StoaError): string | undefined {
  const reason = details?.['reason'];
  return typeof reason === 'string' && Object.hasOwn(refusals, reason)
    ? refusals[reason as Refusal][1]
    : undefined;
}

/** A request sets how long the messages of a public room are kept. */
export function publicRetention(): StoaError {
  return new StoaError('invalid_request', 'The request sets retention_seconds of a public room.', {
    fix: 'Leave out retention_seconds: messageRetentionSeconds applies to public rooms. Rooms of users have their own.',
    details: { field: 'retention_seconds' },
  });
}
