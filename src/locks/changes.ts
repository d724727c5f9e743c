/** What the feed says of locks. A renewal is not announced. */
import type { Change } from '../core/change.js';
import { encodeSegment } from '../core/text/path-segment.js';
import type { Lock } from './model.js';

/** Why a lock ended without a release: its time was over, or its holder was lost or forgotten. */
export type LapseReason = 'expired' | 'holder_lost';

export function lockAcquired(lock: Lock): Change {
  return changeOf('lock.acquired', lock);
}

export function lockReleased(lock: Lock): Change {
  return changeOf('lock.released', lock);
}

export function lockLapsed(lock: Lock, reason: LapseReason): Change {
  return changeOf('lock.lapsed', lock, { reason });
}

/** The id of a lock in the feed: the segment of its path. */
export function lockId(name: string): string {
  return encodeSegment(name);
}

function changeOf(
  kind: string,
  { user, name, holder, fence }: Lock,
  facts: Record<string, string> = {},
): Change {
  return {
    domain: 'locks',
    kind,
    id: lockId(name),
    user,
    version: null,
    facts: { name, holder, fence, ...facts },
  };
}
