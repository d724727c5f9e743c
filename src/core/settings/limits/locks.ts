/** Limits of advisory locks. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const lockLimits = {
  locksPerUserMax: { default: 1_000, about: 'Locks that the agents of one user hold.' },
  lockSeconds: {
    default: 900,
    positive: true,
    about: 'Seconds that a lock lives without a renewal, unless the request sets its own time.',
  },
  lockSecondsMax: { default: 24 * 3600, positive: true, about: 'Seconds that a lock may ask for.' },
  lockWaitSecondsMax: {
    default: 60,
    max: timerSecondsMax,
    about: 'Seconds that a request may wait for a lock.',
  },
  locksWaitingMax: { default: 10_000, about: 'Requests waiting for locks at the same time.' },
  lockNameBytesMax: { default: 1_024, about: 'Bytes in the name of a lock.' },
  lockNoteCharactersMax: { default: 200, about: 'Characters in the note of a lock.' },
} as const satisfies LimitGroup;
