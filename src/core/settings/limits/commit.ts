/** Limits of commits over several operations. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const commitLimits = {
  commitStepsMax: { default: 1_000, about: 'Checks and operations in one commit.' },
  commitModifiedBytesMax: {
    default: 16 * 1024 * 1024,
    about: 'Bytes of all values that the increments and appends of one commit change.',
  },
  commitIdleSecondsMax: {
    default: 15,
    about:
      'Seconds that a write in PostgreSQL may be idle inside its transaction before the database ends it and frees its locks.',
  },
  commitDeliveryWaitSeconds: {
    default: 3,
    max: timerSecondsMax,
    about: 'Seconds that the response to a commit in PostgreSQL waits for the delivery of its messages.',
  },
  commitRedisWaitSeconds: {
    default: 1,
    max: timerSecondsMax,
    about:
      'Seconds that a commit in PostgreSQL waits for Redis to count the bytes of its messages. After that, the ' +
      'messages are queued.',
  },
  commitDeliverySecondsMax: {
    default: 24 * 3600,
    about:
      'Seconds that delivery of a message of a commit in PostgreSQL is retried before the message is ' +
      'undeliverable.',
  },
  commitDeliveredKeptSeconds: {
    default: 24 * 3600,
    about: 'Seconds that the outbox in PostgreSQL keeps a delivered message.',
  },
  commitUndeliverableKeptSeconds: {
    default: 7 * 24 * 3600,
    about: 'Seconds that the outbox in PostgreSQL keeps an undeliverable message.',
  },
} as const satisfies LimitGroup;
