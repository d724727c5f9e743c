/** Positions as text, and the refusals of a feed that cannot continue from one. */
import { StoaError } from '../core/errors.js';

/** What a position names: the history that it belongs to, and a number for each shard. PostgreSQL has one shard. */
export interface PositionParts {
  /** Another store, a restored one and a moved one each have another epoch. */
  readonly epoch: string;
  readonly numbers: readonly number[];
}

const shape = /^([0-9a-f]{12})-(\d{1,15}(?:\.\d{1,15})*)$/;

/** The beginning of what a feed has kept, in every feed. */
export const firstPosition = '0';

export function positionText({ epoch, numbers }: PositionParts): string {
  return `${epoch}-${numbers.join('.')}`;
}

/** The parts of a position other than `firstPosition`. */
export function positionParts(text: string): PositionParts {
  const [, epoch, numbers] = shape.exec(text) ?? [];
  if (epoch === undefined || numbers === undefined)
    throw new StoaError('invalid_cursor', `"${text.slice(0, 80)}" is not a position of a change feed.`, {
      fix: 'Use a position from this Stoa, or omit it to read from the oldest commit.',
    });
  return { epoch, numbers: numbers.split('.').map(Number) };
}

/** The answer to a position that is too old, or that belongs to another feed or to a state before a restore. */
export function resync(newest: string): StoaError {
  return new StoaError('resync', 'The change feed does not contain the changes after this position.', {
    fix: 'Read the state again, then follow the feed from `details.position`.',
    details: { position: newest },
  });
}
