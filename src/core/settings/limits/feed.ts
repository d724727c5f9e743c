/** Limits of the change feed. */
import type { LimitGroup } from './definition.js';

export const feedLimits = {
  feedAgeSecondsMax: {
    default: 7 * 24 * 3600,
    setting: true,
    about: 'Seconds that entries stay in the change feed.',
  },
  feedBytesMax: {
    default: 1024 * 1024 * 1024,
    setting: true,
    about: 'Bytes of change feed to keep. The oldest entries are dropped first.',
  },
} as const satisfies LimitGroup;
