/** Every limit of Stoa in one table: its name, default and meaning. Settings override it by name. */
import { StoaError } from '../errors.js';

interface LimitDefinition {
  readonly default: number;
  /** One sentence for the configuration page and for error messages. */
  readonly about: string;
  /** With 0 a timer would never rest, a step, page or attempt would do nothing for ever, or no server could start or be asked anything. */
  readonly positive?: true;
  /** The highest value that works; without it there is none. */
  readonly max?: number;
}

/** Node's timers hold 24 days, and take a longer time for one millisecond; some wait a little longer than their limit. */
const timerSecondsMax = 1_000_000;

export const limitDefinitions = {
  // Kernel
  transactionsWaitingMax: {
    default: 20_000,
    positive: true,
    about: 'Transactions that may wait for the disk before new ones are refused.',
  },
  transactionBytesWaitingMax: {
    default: 64 * 1024 * 1024,
    positive: true,
    about: 'Bytes of writes that may wait for the disk before new ones are refused.',
  },
  migrationStepRowsMax: {
    default: 500,
    positive: true,
    about: 'Rows that a migration to a newer format, or to newer tables, changes in one transaction.',
  },
  transactionOperationsMax: { default: 100_000, positive: true, about: 'Writes in one transaction.' },
  feedAgeSecondsMax: { default: 7 * 24 * 3600, about: 'Age after which entries leave the change feed.' },
  feedBytesMax: {
    default: 1024 * 1024 * 1024,
    about: 'Size after which the oldest entries leave the change feed.',
  },
  redoBytesMax: {
    default: 1024 * 1024 * 1024,
    about: 'Size after which the oldest entries leave the redo log, backed up or not.',
  },
  sweepStepMax: { default: 256, positive: true, about: 'Timers handled in one step of the sweeper.' },
  shardsMax: { default: 256, positive: true, about: 'Shards of a data directory.' },
  doctorFindingsMax: { default: 1_000, about: 'Damages that one examination lists; all are counted.' },

  // Wire
  bodyBytesMax: { default: 17 * 1024 * 1024, positive: true, about: 'Bytes of a request body.' },
  fieldErrorsMax: { default: 100, positive: true, about: 'Wrong fields that one refusal lists.' },
  jsonDepthMax: { default: 200, about: 'Levels of nesting in a JSON body.' },
  jsonValuesMax: {
    default: 1_000_000,
    positive: true,
    about:
      'Values in a JSON body; a list, an object and each member of an object count as four. Parsing more would hold up other requests.',
  },
  listItemsMax: {
    default: 10_000,
    positive: true,
    about: 'Items of one list of a request, where each item is checked; values to store are not such lists.',
  },
  pageItemsDefault: {
    default: 100,
    positive: true,
    about: 'Items on a page of a list when no limit is given.',
  },
  pageItemsMax: {
    default: 1_000,
    positive: true,
    about: 'Items on a page of a list; a larger limit is clamped.',
  },
  headerBytesMax: { default: 16 * 1024, positive: true, about: 'Bytes of the headers of a request.' },
  requestSecondsMax: {
    default: 60,
    positive: true,
    max: timerSecondsMax,
    about: 'Time in which a request must have arrived whole.',
  },
  streamsMax: { default: 5_000, about: 'Open event streams of the whole server.' },
  streamsPerCallerMax: {
    default: 2_000,
    about:
      'Open event streams of one user, of one messaging identity, or of one address without credentials; the operator has no such limit.',
  },
  streamBufferBytesMax: {
    default: 1024 * 1024,
    about: 'Bytes waiting for a slow stream reader before it is told to resync and cut off.',
  },
  streamStallSecondsMax: {
    default: 60,
    about: 'Time for which a stream reader may take nothing before it is cut off.',
  },
  streamHeartbeatSeconds: {
    default: 15,
    positive: true,
    max: timerSecondsMax,
    about: 'Pause after which an idle stream sends a comment.',
  },
  idempotencyKeyBytesMax: { default: 255, about: 'Bytes of an Idempotency-Key.' },
  idempotencyAnswerBytesMax: {
    default: 256 * 1024,
    positive: true,
    about: 'Bytes of an answer that is kept under an Idempotency-Key; a larger one refuses the request.',
  },
  idempotencySeconds: {
    default: 24 * 3600,
    about: 'Time for which the answer to an Idempotency-Key is kept.',
  },
  healthSecondsMax: {
    default: 3,
    positive: true,
    max: timerSecondsMax,
    about: 'Time after which a database that has not answered is told of by /health.',
  },
  stopSecondsMax: {
    default: 30,
    max: timerSecondsMax,
    about: 'Time in which running requests may finish when the server stops.',
  },
  pathSegmentCharactersMax: { default: 8_192, about: 'Characters of one parameter in a path.' },
  requestsPerMinuteMax: { default: 0, about: 'Requests a minute on /v1 from one caller; 0 means no limit.' },

  // Commits
  commitStepsMax: { default: 1_000, about: 'Checks and operations of one commit.' },
  commitModifiedBytesMax: {
    default: 16 * 1024 * 1024,
    about: 'Bytes of the values that the increments and appends of one commit read, write and answer.',
  },
  commitIdleSecondsMax: {
    default: 60,
    about:
      'How long a commit in PostgreSQL may be silent inside its transaction before the database ends it, and with it its locks.',
  },
  commitDeliveryWaitSeconds: {
    default: 3,
    max: timerSecondsMax,
    about:
      'How long the answer to a commit on PostgreSQL waits for its messages before it calls them queued.',
  },
  commitDeliverySecondsMax: {
    default: 24 * 3600,
    about: 'How long a message of a commit on PostgreSQL is tried before it counts as undeliverable.',
  },
  commitDeliveredKeptSeconds: {
    default: 24 * 3600,
    about: 'How long the outbox in PostgreSQL remembers a message that was delivered.',
  },
  commitUndeliverableKeptSeconds: {
    default: 7 * 24 * 3600,
    about: 'How long the outbox in PostgreSQL shows a message that could not be delivered.',
  },

  // Identity
  userIdBytesMax: { default: 256, about: 'Bytes of a user id.' },
  agentHeaderBytesMax: { default: 256, about: 'Bytes of the agent name in Stoa-Agent.' },
  emailBytesMax: { default: 254, about: 'Bytes of an e-mail address.' },
  tokensPerUserMax: { default: 100, about: 'Live tokens of one user.' },
  tokensCachedMax: { default: 10_000, about: 'Verified tokens kept in memory.' },
  tokenUseSeconds: {
    default: 60,
    positive: true,
    max: timerSecondsMax,
    about: 'Pause after which the last use of tokens is written down.',
  },
  scopeNamespacesMax: { default: 1_000, about: 'Namespaces that a token or a link can be narrowed to.' },
  tokenNameCharactersMax: { default: 100, about: "Characters of a token's name." },

  // Data store
  valueBytesMax: { default: 1024 * 1024, about: 'Bytes of the JSON text of a stored value.' },
  valueDepthMax: { default: 200, about: 'Lists and objects inside each other in a stored value.' },
  metadataBytesMax: { default: 64 * 1024, about: "Bytes of the JSON text of a document's metadata." },
  dataKeyBytesMax: { default: 1_024, about: 'Bytes of a key of the data store.' },
  namespaceBytesMax: { default: 256, about: 'Bytes of a namespace.' },
  dataBatchKeysMax: {
    default: 1_000,
    positive: true,
    about: 'Keys in one batch of reads, writes and deletions.',
  },
  dataBatchBytesMax: { default: 16 * 1024 * 1024, about: 'Bytes of the values in one batch.' },
  dataPageBytesMax: {
    default: 16 * 1024 * 1024,
    about: 'Bytes of values on a page of documents; the page ends early after it.',
  },
  namespaceAgentsListedMax: {
    default: 1_000,
    positive: true,
    about: 'Agents that are listed with a namespace; of more, the first by name.',
  },
  namespacePageAgentsMax: {
    default: 10_000,
    positive: true,
    about: 'Agents on a page of namespaces; the page ends early after it.',
  },
  clearStepMax: {
    default: 1_000,
    positive: true,
    about: 'Documents that clearing a namespace removes in one commit.',
  },
  documentsCachedMax: {
    default: 1_000,
    about:
      'Documents of the embedded store kept in memory as they were last read; only those with small values that do not expire.',
  },
  trackedReadsMax: {
    default: 100_000,
    about:
      'Documents whose counted reads wait in memory before they are written at once; when that fails, no more are taken on.',
  },
  updateAttemptsMax: {
    default: 100,
    positive: true,
    about: 'Attempts of an update against writers in other processes before it gives up.',
  },
  dataDocumentsPerUserMax: { default: 0, about: 'Documents of one user; 0 means no quota.' },
  dataBytesPerUserMax: { default: 0, about: 'Bytes of all values of one user; 0 means no quota.' },
  dataNamespacesPerUserMax: { default: 0, about: 'Namespaces of one user; 0 means no quota.' },

  // Database servers
  backendAttemptsMax: {
    default: 8,
    positive: true,
    about: 'Attempts of a request to a database server that fails for a moment or asks to slow down.',
  },
  backendDelayMsMax: { default: 2_000, about: 'Longest pause in milliseconds between two such attempts.' },
  backendRequestSecondsMax: {
    default: 10,
    positive: true,
    max: timerSecondsMax,
    about: 'Time after which a request to a database server counts as lost.',
  },
  statementSecondsMax: {
    default: 30,
    max: timerSecondsMax,
    about:
      'Time that a statement in PostgreSQL may take, the wait for a connection included; then the server ends it, and connections on which the server is silent are given up. 0 means no limit.',
  },
  backendReadySecondsMax: {
    default: 600,
    positive: true,
    max: timerSecondsMax,
    about: 'Time that tables and indexes of a database server may take to become usable.',
  },
  backendInFlightMax: {
    default: 32,
    positive: true,
    about: 'Requests of one call that are under way to a database server at a time.',
  },
  foreignDocumentsSeconds: {
    default: 5,
    about:
      'How often a namespace on CouchDB or DynamoDB that is listed is looked through for documents of other programs, which lists would miss; 0 means before every list.',
  },
  knownAgentSeconds: {
    default: 60,
    about: 'How often an agent that goes on working in a namespace is noted there again.',
  },

  // Registry
  agentsPerUserMax: { default: 10, about: 'Agents of one user; stopped ones count.' },
  agentsCachedMax: { default: 1_000, about: 'Agents kept in memory as they were last read.' },
  agentNameCharactersMax: { default: 100, about: 'Characters of an agent name.' },
  agentLabelsMax: { default: 32, about: 'Labels of one agent.' },
  labelCharactersMax: { default: 100, about: "Characters of a label's name or value." },
  agentErrorCharactersMax: { default: 1_000, about: "Characters of an agent's error message." },
  runtimeVersionCharactersMax: { default: 100, about: 'Characters of a runtime version.' },
  leaseSeconds: { default: 60, positive: true, about: "Time to live of an agent's lease." },
  leaseGraceSeconds: { default: 30, about: "Time after a lapsed lease before the agent's presence is lost." },
  idleAfterSeconds: {
    default: 300,
    about: 'Time without a sign of life after which a running agent becomes idle; 0 means never.',
  },
  hibernateAfterSeconds: {
    default: 1_800,
    about: 'Time idle after which an agent hibernates; 0 means never.',
  },
  leaseHolderBytesMax: { default: 256, about: "Bytes of the name of a lease's holder." },
  heartbeatRecordSeconds: {
    default: 60,
    about: "How far the last heartbeat in an agent's record may be behind.",
  },
  lastSeenSeconds: { default: 60, about: "How far the last call in a user's record may be behind." },
  listSeeksMax: {
    default: 10_000,
    positive: true,
    about:
      'Index entries looked up for one page of agents with several filters; the page is short where that is not enough.',
  },
  sessionsDeletedAtOnceMax: {
    default: 1_000,
    positive: true,
    about:
      'Sessions that are deleted in one commit with their agent; of an agent with more, some are deleted before it.',
  },
  sessionsPerAgentMax: { default: 1_000, about: 'Active sessions of one agent; 0 means no quota.' },

  // Messaging
  messageBytesMax: { default: 4096, about: 'Bytes of a message in a room.' },
  directBytesMax: { default: 8192, about: 'Bytes of a direct message.' },
  messagingRequestBytesMax: {
    default: 64 * 1024,
    about:
      'Bytes of a request body on the messaging routes, so that every legal message fits however it is escaped.',
  },
  messageRetentionSeconds: {
    default: 24 * 3600,
    about: 'Life of a message in a room and in the search, from its own time.',
  },
  directRetentionSeconds: { default: 7 * 24 * 3600, about: 'Life of a direct message, from its own time.' },
  messageClockAheadSecondsMax: {
    default: 60,
    about:
      "How far a message's time may be ahead of the clock before `stoa doctor` reports it. Posting is never refused for it.",
  },
  messagesPageDefault: {
    default: 50,
    positive: true,
    about: 'Messages on a page of a room when no limit is given.',
  },
  messagesPageMax: { default: 200, positive: true, about: 'Messages on a page of a room.' },
  channelsPageDefault: {
    default: 20,
    positive: true,
    about: 'Rooms on a page of the channel list when no limit is given.',
  },
  channelsPageMax: { default: 100, positive: true, about: 'Rooms on a page of the channel list.' },
  directPageMax: { default: 100, positive: true, about: 'Direct messages on a page.' },
  threadMessagesMax: { default: 200, positive: true, about: 'Messages on a page of a thread.' },
  roomKeyBytesMin: { default: 16, about: "Bytes of a private room's key, at least." },
  roomKeyBytesMax: { default: 72, about: "Bytes of a private room's key, at most: bcrypt reads no further." },
  roomKeyCacheSeconds: {
    default: 60,
    about: 'Time for which a room key that was checked needs no new check.',
  },
  roomKeyGuessesPerMinuteMax: { default: 10, about: 'Wrong room keys a minute from one address.' },
  searchQueryCharactersMax: { default: 100, about: 'Characters of a search query.' },
  searchResultsDefault: { default: 20, positive: true, about: 'Results of a search when no limit is given.' },
  searchResultsMax: { default: 100, positive: true, about: 'Results of a search.' },
  searchStepsMax: {
    default: 50_000,
    positive: true,
    about: 'Steps through the index in one search; an answer cut off there says so and where to go on.',
  },
  searchRepairSeconds: {
    default: 300,
    positive: true,
    max: timerSecondsMax,
    about:
      'How often a Redis cluster is looked through for messages that their server could not bring into the search.',
  },
  signatureAgeSecondsMax: { default: 30, about: 'Age of a signature at which it is refused.' },
  linkConsentSecondsMax: {
    default: 3600,
    about: "Age of an identity's consent to a link at which it is refused.",
  },
  signatureAheadSecondsMax: {
    default: 5,
    about: 'How far a signature may lie in the future, for clocks that run fast.',
  },
  nonceCharactersMin: { default: 24, about: 'Characters of a nonce, at least.' },
  nonceCharactersMax: { default: 128, about: 'Characters of a nonce, at most.' },
  nonceSeconds: { default: 180, about: 'Time for which a used nonce is remembered.' },
  messageBytesPerMinuteMax: {
    default: 32_768,
    about: 'Bytes of message bodies a minute that one agent may post in rooms.',
  },
  addressRequestsPerMinuteMax: {
    default: 1_200,
    about: 'Requests a minute from one address before signatures are looked at.',
  },
  registrationsPerHourMax: { default: 10, about: 'Registrations an hour from one address.' },
  profileReadsPerMinuteMax: { default: 100, about: 'Profile reads a minute from one address.' },
  profileChangesPerHourMax: { default: 10, about: 'Profile changes and key rotations an hour by one agent.' },
  identityKeysMax: {
    default: 1_000,
    positive: true,
    about: 'Keys that one identity can have in its history, which is answered and checked whole.',
  },
  channelReadsPerMinuteMax: { default: 60, about: 'Reads of the channel list a minute from one address.' },
  searchesPerMinuteMax: { default: 30, about: 'Searches a minute from one address.' },
  roomsCreatedPerHourMax: { default: 10, about: 'Rooms that one agent may create in an hour.' },
  roomReadsPerMinuteMax: { default: 120, about: 'Reads of rooms a minute by one agent.' },
  postsPerMinuteMax: { default: 30, about: 'Messages that one agent may post in a minute.' },
  deletesPerMinuteMax: { default: 30, about: 'Messages that one agent may delete in a minute.' },
  directSendsPerMinuteMax: { default: 60, about: 'Direct messages that one agent may send in a minute.' },
  directReadsPerMinuteMax: { default: 60, about: 'Reads of its inbox a minute by one agent.' },
  namedAgentBudgetsMax: {
    default: 10,
    about: "How many agents' limits all agents together have that the tokens of one user name.",
  },
  violationsPerHourMax: {
    default: 10,
    about: 'Refusals for rate an hour after which an address is blocked.',
  },
  blockSeconds: { default: 24 * 3600, about: 'Time for which an address is blocked.' },
  rateWindowsKeptMax: {
    default: 10_000,
    about: 'Rate windows of messaging that outlive a restart of the embedded store.',
  },
  rateWindowsKeptEverySeconds: {
    default: 5,
    positive: true,
    max: timerSecondsMax,
    about:
      'How often the embedded store writes the rate windows of messaging that changed; a crash forgets at most so much of them.',
  },
  identitiesCachedMax: {
    default: 1_000,
    about: 'Messaging identities kept in memory as they were last read.',
  },
  roomsCachedMax: { default: 1_000, about: 'Rooms kept in memory as they were last read.' },
  longPollSecondsMax: { default: 60, max: timerSecondsMax, about: 'Time that a long poll may wait.' },
  roomsPerStreamMax: { default: 50, about: 'Rooms in one event stream.' },
  acknowledgedIdsMax: { default: 1_000, about: 'Direct messages acknowledged in one request.' },

  // Workspaces
  workspaceNameCharactersMax: { default: 100, about: 'Characters of a workspace or project name.' },
  projectPathBytesMax: { default: 1_024, about: 'Bytes of a project path.' },
  projectDescriptionCharactersMax: { default: 500, about: 'Characters of a project description.' },
  projectTextCharactersMax: { default: 500, about: "Characters of a project's git URL, branch or language." },
  projectConfigBytesMax: { default: 64 * 1024, about: "Bytes of a project's config or git_info as JSON." },
  workspacePageItemsDefault: {
    default: 20,
    positive: true,
    about: 'Items on a page of workspaces, projects, sessions or tasks when no limit is given.',
  },
  workspacePageItemsMax: {
    default: 100,
    positive: true,
    about: 'Items on a page of workspaces, projects, sessions or tasks; a larger limit is clamped.',
  },
  workSessionMetadataBytesMax: { default: 64 * 1024, about: "Bytes of a session's metadata as JSON." },
  workSessionIdleSeconds: {
    default: 1_800,
    about: 'Time without activity after which a session is ended, when it names none; 0 means never.',
  },
  workSessionLifetimeSeconds: {
    default: 24 * 3600,
    about: 'Time after its start at which a session is ended, when it names none; 0 means never.',
  },
  workSessionActivitySeconds: {
    default: 5,
    about: "Heartbeats move a session's last_active at most this often.",
  },
  taskCommandCharactersMax: { default: 10_000, about: "Characters of a task's command." },
  taskOutputBytesMax: { default: 1024 * 1024, about: "Bytes of a task's output." },
  taskErrorCharactersMax: {
    default: 10_000,
    about: "Characters of a task's error or of the reason of a cancellation.",
  },
  taskDependenciesMax: { default: 100, about: 'Tasks that one task may depend on.' },
  taskPriorityMax: { default: 1_000, about: 'Highest priority of a task; the lowest is its negative.' },
  taskLeaseSeconds: { default: 60, positive: true, about: 'Time to live of a claim when it names none.' },
  taskLeaseSecondsMax: { default: 24 * 3600, positive: true, about: 'Longest time to live of a claim.' },
  taskAttempts: { default: 3, about: 'Attempts after which a task fails, when it names no number.' },
  taskAttemptsMax: { default: 1_000, about: 'Most attempts that a task may ask for.' },
  claimWaitSecondsMax: {
    default: 60,
    max: timerSecondsMax,
    about: 'Longest time that a claim waits for a task.',
  },
  claimsWaitingMax: { default: 10_000, about: 'Claims that may wait at one time.' },
  workspaceStepRowsMax: {
    default: 500,
    positive: true,
    about: 'Rows that a cascade, purge or re-keying handles in one transaction.',
  },

  // Export and import
  importBytesMax: {
    default: 16 * 1024 ** 3,
    about: 'Bytes of one file that is imported through the server; it waits on the disk of the server.',
  },
  importSpoolBytesPerCallerMax: {
    default: 1024 ** 3,
    about:
      "Bytes that the imports of one caller take on the server's disk while they are under way; the operator has no such limit.",
  },
  importSpoolBytesMax: {
    default: 16 * 1024 ** 3,
    about: "Bytes that all imports under way take together on the server's disk.",
  },
  importStepRecordsMax: {
    default: 200,
    positive: true,
    about: 'Records that an import writes in one transaction.',
  },
  importStepBytesMax: {
    default: 1024 * 1024,
    about: 'Bytes of lines that an import writes in one transaction; one longer line goes alone.',
  },
  importRecordsMax: {
    default: 10_000_000,
    about: 'Records in one file that is imported; their ids are held in memory, in up to 32 bytes each.',
  },
  importFindingsMax: {
    default: 100,
    about: 'Bad lines, and conflicts, that the report of an import lists; all are counted.',
  },

  // MCP
  mcpKeysMax: { default: 100, about: 'Keys that one recall reads.' },
  mcpAnswerBytesMax: {
    default: 2 * 1024 * 1024,
    about: 'Bytes of values in one answer of an MCP tool; lists end early, more keys than fit are refused.',
  },
  mcpBatchMax: { default: 20, about: 'Messages in one request of an MCP client.' },
  mcpMessageValuesMax: {
    default: 5_000,
    positive: true,
    about:
      'Values in one request of an MCP client, without those inside the arguments of tools; a long text counts as one for each 1,024 characters.',
  },
  mcpRoomsScannedMax: {
    default: 1_000,
    about: 'Most recently active rooms among which a name is looked up.',
  },
  mcpSessionsMax: {
    default: 1_000,
    about: 'Sessions of MCP clients; beyond it the one that was idle longest ends.',
  },
  mcpSessionsPerUserMax: {
    default: 100,
    about: 'Sessions of the MCP clients of one user; beyond it the one that was idle longest ends.',
  },
  mcpSessionIdleSeconds: {
    default: 1_800,
    positive: true,
    about: 'Time without a request after which the session of an MCP client ends.',
  },
  mcpSubscriptionsMax: { default: 1_000, about: 'Resources to which one MCP client may be subscribed.' },
  mcpResourcesListed: { default: 100, positive: true, about: 'Resources on a page of a list.' },

  // Secrets
  secretBytesMax: { default: 16 * 1024, about: 'Bytes of one secret.' },
} as const satisfies Record<string, LimitDefinition>;

export type LimitName = keyof typeof limitDefinitions;
export type Limits = { readonly [Name in LimitName]: number };

const rows: Readonly<Record<LimitName, LimitDefinition>> = limitDefinitions;

/** The least and the greatest whole number that a limit can be set to. */
export function limitBoundsOf(name: LimitName): { min: number; max: number } {
  const { positive, max = Number.MAX_SAFE_INTEGER } = rows[name];
  return { min: positive === true ? 1 : 0, max };
}

/** The defaults, with the given ones on top. Parts of a second are for the library alone. */
export function limitsWith(overrides: Partial<Limits> = {}): Limits {
  for (const [name, value] of Object.entries(overrides)) checkLimit(name as LimitName, value); // Object.entries forgets the type of the keys.
  const defaults = Object.fromEntries(
    Object.entries(limitDefinitions).map(([name, row]) => [name, row.default]),
  );
  // Object.fromEntries forgets which keys it had; they are exactly those of the table.
  return { ...(defaults as Limits), ...overrides };
}

function checkLimit(name: LimitName, value: number): void {
  if (!Object.hasOwn(rows, name)) throw new StoaError('invalid_config', `There is no limit "${name}".`);
  const { positive, max } = rows[name];
  if ((positive === true ? value > 0 : value >= 0) && value <= (max ?? Number.POSITIVE_INFINITY)) return;
  const bounds = `${positive === true ? 'more than 0' : '0 or more'}${max === undefined ? '' : ` and at most ${max}`}`;
  throw new StoaError('invalid_config', `limits.${name} must be ${bounds}, not ${value}.`, {
    details: { setting: `limits.${name}` },
  });
}
