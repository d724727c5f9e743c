/** Errors of RocksDB as errors of Stoa. */
import { messageOf, StoaError } from '../../../../../core/errors.js';
import { commitFailure, damagedData, diskFull, noRoomToOpen } from '../checked.js';

const noSpace = /no space left/i;
/** More than the word "lock": "block checksum mismatch" contains it, and the path may too. */
const heldElsewhere = /while lock file|lock hold by/i;

export function openFailure(path: string, thrown: unknown): StoaError {
  // The package hides the reason behind "Database is not open".
  const reason = thrown instanceof Error && thrown.cause !== undefined ? thrown.cause : thrown;
  const message = messageOf(reason);
  if (heldElsewhere.test(message)) {
    return new StoaError('locked', `Another process has the RocksDB database in ${path} open: ${message}.`, {
      fix: 'Stop that process, or give this one another data directory.',
      cause: thrown,
    });
  }
  if (noSpace.test(message)) return noRoomToOpen(path, reason);
  if (/corruption|not opened|checksum|MANIFEST|CURRENT/i.test(message)) return damagedData(path, reason);
  return new StoaError('engine', `RocksDB could not open ${path}: ${message}.`, { cause: thrown });
}

export function writeFailure(thrown: unknown): StoaError {
  const message = messageOf(thrown);
  // A record that was cut off while it was appended is dropped at the next start. After a failed sync the
  // record may be complete.
  return noSpace.test(message) && /append/i.test(message) ? diskFull(thrown) : commitFailure(thrown);
}
