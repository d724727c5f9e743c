/** Limits of the data directory and of the connections to database servers. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const storageLimits = {
  redoBytesMax: {
    default: 1024 * 1024 * 1024,
    setting: true,
    about:
      'Bytes of redo log to keep. Older entries are dropped even if no backup has them. The log begins with the first full backup.',
  },
  backendRequestSecondsMax: {
    default: 10,
    setting: true,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds to wait for the answer of a database server.',
  },
  statementSecondsMax: {
    default: 30,
    setting: true,
    max: timerSecondsMax,
    about:
      'Seconds that a PostgreSQL statement may take, including the wait for a connection; 0 means no limit. ' +
      'PostgreSQL itself ends a statement after five sixths of them.',
  },
  shardsMax: { default: 256, positive: true, about: 'Shards in a data directory.' },
  transactionsWaitingMax: {
    default: 20_000,
    positive: true,
    about: 'Transactions waiting for the disk before new ones are refused.',
  },
  transactionBytesWaitingMax: {
    default: 64 * 1024 * 1024,
    positive: true,
    about: 'Bytes of writes waiting for the disk before new ones are refused.',
  },
  transactionOperationsMax: { default: 100_000, positive: true, about: 'Writes in one transaction.' },
  sweepStepMax: {
    default: 256,
    positive: true,
    about: 'Due timers, or expired rows on PostgreSQL, handled in one transaction.',
  },
  migrationStepRowsMax: {
    default: 500,
    positive: true,
    about: 'Rows that a migration changes in one transaction.',
  },
  backendAttemptsMax: {
    default: 8,
    positive: true,
    about: 'Attempts of a request to a database server that is briefly unavailable or asks to slow down.',
  },
  backendDelayMsMax: {
    default: 2_000,
    about: 'Longest pause between two attempts of a request to a database server, in milliseconds.',
  },
  backendStartSecondsMax: {
    default: 60,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds that a start waits for PostgreSQL and Redis.',
  },
  backendReadySecondsMax: {
    default: 600,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds for new tables and indexes of a database server to become usable.',
  },
  backendInFlightMax: {
    default: 32,
    positive: true,
    about: 'Concurrent requests to a database server for one call.',
  },
  storeWritesUnknownMax: {
    default: 100_000,
    positive: true,
    about: 'Writes of a store beside the home with an unknown outcome before new ones are refused.',
  },
} as const satisfies LimitGroup;
