/** Compares the state that a message was prepared with again, in the transaction that writes the message. */
import { Outdated } from '../../../core/write.js';
import type { Transaction } from '../kernel/transaction.js';
import type { MessageBasis, NewDirectMessage, NewMessage } from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import { keptBy, readIdentity } from './identities/identities.js';
import { readKeyHash } from './rooms/rooms.js';

export function requireBasis(
  tx: Transaction,
  message: NewMessage | NewDirectMessage,
  { keyHash, publicKey, keptOwner }: MessageBasis,
): void {
  if ('roomId' in message && keyHash !== undefined) {
    const stored = readKeyHash(tx, message.roomId);
    if (stored !== keyHash) throw new Outdated(`The key of the room ${message.roomId}`);
  }
  if (keptOwner !== null && keptBy(tx, keptOwner) !== message.from)
    throw new Outdated('The identity that the server keeps for the caller');
  // Preparing again would not help: the client must sign with the new key.
  if (publicKey !== null && readIdentity(tx, uuidBytes(message.from))?.publicKey !== publicKey)
    throw refuse('signature');
}
