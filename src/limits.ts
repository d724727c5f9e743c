/** Every limit of Stoa in one table: its name, default and meaning. Settings override it by name. */

interface LimitDefinition {
  readonly default: number;
  /** One sentence for the configuration page and for error messages. */
  readonly about: string;
}

export const limitDefinitions = {
  // Kernel
  transactionsWaitingMax: { default: 20_000, about: 'Transactions that may wait for the disk before new ones are refused.' },
  transactionBytesWaitingMax: { default: 64 * 1024 * 1024, about: 'Bytes of writes that may wait for the disk before new ones are refused.' },
  transactionOperationsMax: { default: 100_000, about: 'Writes in one transaction.' },
  feedAgeSecondsMax: { default: 7 * 24 * 3600, about: 'Age after which entries leave the change feed.' },
  feedBytesMax: { default: 1024 * 1024 * 1024, about: 'Size after which the oldest entries leave the change feed.' },
  redoBytesMax: { default: 1024 * 1024 * 1024, about: 'Size after which the oldest entries leave the redo log, backed up or not.' },
  sweepStepMax: { default: 256, about: 'Timers handled in one step of the sweeper.' },
  shardsMax: { default: 256, about: 'Shards of a data directory.' },

  // Wire
  bodyBytesMax: { default: 17 * 1024 * 1024, about: 'Bytes of a request body.' },
  pageItemsDefault: { default: 100, about: 'Items on a page of a list when no limit is given.' },
  pageItemsMax: { default: 1_000, about: 'Items on a page of a list; a larger limit is clamped.' },
  headerBytesMax: { default: 16 * 1024, about: 'Bytes of the headers of a request.' },
  requestSecondsMax: { default: 60, about: 'Time in which a request must have arrived whole.' },
  streamsMax: { default: 5_000, about: 'Open event streams of the whole server.' },
  streamBufferBytesMax: { default: 1024 * 1024, about: 'Bytes waiting for a slow stream reader before it is told to resync and cut off.' },
  streamHeartbeatSeconds: { default: 15, about: 'Pause after which an idle stream sends a comment.' },
  idempotencyKeyBytesMax: { default: 255, about: 'Bytes of an Idempotency-Key.' },
  idempotencySeconds: { default: 24 * 3600, about: 'Time for which the answer to an Idempotency-Key is kept.' },
  requestsPerMinuteMax: { default: 0, about: 'Requests a minute on /v1 from one caller; 0 means no limit.' },

  // Identity
  userIdBytesMax: { default: 256, about: 'Bytes of a user id.' },
  agentHeaderBytesMax: { default: 256, about: 'Bytes of the agent name in Stoa-Agent.' },
  emailBytesMax: { default: 254, about: 'Bytes of an e-mail address.' },
  tokensPerUserMax: { default: 100, about: 'Live tokens of one user.' },
  tokenNameCharactersMax: { default: 100, about: 'Characters of a token\'s name.' },

  // Registry
  agentsPerUserMax: { default: 10, about: 'Agents of one user; stopped ones count.' },
  agentNameCharactersMax: { default: 100, about: 'Characters of an agent name.' },
  agentLabelsMax: { default: 32, about: 'Labels of one agent.' },
  labelCharactersMax: { default: 100, about: 'Characters of a label\'s name or value.' },
  agentErrorCharactersMax: { default: 1_000, about: 'Characters of an agent\'s error message.' },
  runtimeVersionCharactersMax: { default: 100, about: 'Characters of a runtime version.' },
  leaseSeconds: { default: 60, about: 'Time to live of an agent\'s lease.' },
  leaseGraceSeconds: { default: 30, about: 'Time after a lapsed lease before the agent\'s presence is lost.' },
  idleAfterSeconds: { default: 300, about: 'Time without a sign of life after which a running agent becomes idle; 0 means never.' },
  hibernateAfterSeconds: { default: 1_800, about: 'Time idle after which an agent hibernates; 0 means never.' },
  leaseHolderBytesMax: { default: 256, about: 'Bytes of the name of a lease\'s holder.' },
  heartbeatRecordSeconds: { default: 60, about: 'How far the last heartbeat in an agent\'s record may be behind.' },
  lastSeenSeconds: { default: 60, about: 'How far the last call in a user\'s record may be behind.' },
  sessionsPerAgentMax: { default: 1_000, about: 'Active sessions of one agent.' },
} as const satisfies Record<string, LimitDefinition>;

export type LimitName = keyof typeof limitDefinitions;
export type Limits = { readonly [Name in LimitName]: number };

/** The defaults, with the given ones on top. */
export function limitsWith(overrides: Partial<Limits> = {}): Limits {
  const defaults = Object.fromEntries(Object.entries(limitDefinitions).map(([name, row]) => [name, row.default]));
  // Object.fromEntries forgets which keys it had; they are exactly those of the table.
  return { ...(defaults as Limits), ...overrides };
}
