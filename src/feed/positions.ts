/** Positions as text, and the refusals of a feed that cannot continue from one. */
import { StoaError } from '../core/errors.js';

/** A data directory: a number for each shard. */
const directoryShape = /^\d{1,15}(\.\d{1,15})*$/;
/** PostgreSQL: the epoch and a number. */
const postgresShape = /^([0-9a-f]{12})-(\d{1,15})$/;

/** "0" is the beginning of every feed. */
export const firstPosition = '0';

/** The numbers of a position in a data directory. Undefined for a position of another home. */
export function directoryNumbers(text: string): number[] | undefined {
  requirePosition(text);
  return directoryShape.test(text) ? text.split('.').map(Number) : undefined;
}

/** The parts of a position in PostgreSQL. Undefined for a position of another home. */
export function postgresParts(text: string): { epoch: string; seq: number } | undefined {
  requirePosition(text);
  const [, epoch, seq] = postgresShape.exec(text) ?? [];
  return epoch === undefined ? undefined : { epoch, seq: Number(seq) };
}

/** A follower keeps its position when its Stoa moves to another home, so both shapes are positions everywhere. */
function requirePosition(text: string): void {
  if (!directoryShape.test(text) && !postgresShape.test(text))
    throw new StoaError('invalid_cursor', `"${text.slice(0, 80)}" is not a position of a change feed.`, {
      fix: 'Use a position from this Stoa, or omit it to read from the oldest commit.',
    });
}

/** The answer to a position that is too old, or that belongs to another feed or to a state before a restore. */
export function resync(newest: string): StoaError {
  return new StoaError('resync', 'The change feed does not contain the changes after this position.', {
    fix: 'Read the state again, then follow the feed from `details.position`.',
    details: { position: newest },
  });
}
