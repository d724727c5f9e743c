/** The registry's stored records, and its states as words and as bytes. */

/** The lifecycle of an agent: the word on the wire, the byte on disk. */
export const agentStateBytes = {
  provisioning: 1,
  running: 2,
  idle: 3,
  hibernating: 4,
  stopping: 5,
  stopped: 6,
  error: 7,
} as const;

export type AgentState = keyof typeof agentStateBytes;

// The keys of an object are its own names.
export const agentStates = Object.keys(agentStateBytes) as readonly AgentState[];

export const sessionStatusBytes = { active: 1, closed: 2 } as const;

export type SessionStatus = keyof typeof sessionStatusBytes;

export const sessionStatuses = Object.keys(sessionStatusBytes) as readonly SessionStatus[];

export interface AgentSpecRecord {
  cpu_millicores: number;
  memory_mb: number;
  runtime_version: string;
}

export const agentSpecDefaults: AgentSpecRecord = {
  cpu_millicores: 500,
  memory_mb: 512,
  runtime_version: 'latest',
};

/** An agent as the seed stores it; times are Unix milliseconds. */
export interface AgentRecord {
  /** 64 lowercase hex digits. */
  agent_id: string;
  /** 64 lowercase hex digits. */
  user_id: string;
  name: string;
  status: number;
  spec: AgentSpecRecord;
  created_at: number;
  updated_at: number;
  last_heartbeat_at: number | null;
}

export interface SessionRecord {
  /** A UUID with hyphens. */
  session_id: string;
  agent_id: string;
  user_id: string;
  status: number;
  created_at: number;
  closed_at: number | null;
}

export interface UserRecord {
  user_id: string;
  /** Empty if unknown. */
  email: string;
  created_at: number;
  last_seen_at: number;
}

/** What Stoa stores about an agent beyond the seed's record. */
export interface AgentMeta {
  /** Grows by one with every change that a reader can see; the ETag. */
  version: number;
  /** The owner's readable id. */
  user: string;
  labels: Record<string, string>;
  /** Why the agent is in the state `error`. */
  errorMessage: string | null;
  /** When the agent came into its present state. */
  statusSinceMs: number;
  /** The last sign of life other than a heartbeat: a session opened or closed, a change of state. */
  activeAtMs: number;
  /** When the idle timer fires, or null if it is not set. */
  activityTimerAtMs: number | null;
}

/** Who keeps an agent alive. The row outlives its holder, so that the fencing number only grows. */
export interface Lease {
  /** Null after a release or after the presence was lost. */
  holder: string | null;
  fence: number;
  renewedAtMs: number;
  expiresAtMs: number;
  /** When the timer of the lease fires, or null if it is not set. */
  timerAtMs: number | null;
  /** True from the moment the presence was lost until the lease has a holder again. */
  lost: boolean;
  /** Held through the agent's own calls, not through heartbeats. A heartbeat of any holder takes it over. */
  implicit: boolean;
}

/** All that is stored of one agent. */
export interface StoredAgent {
  record: AgentRecord;
  meta: AgentMeta;
  lease: Lease | null;
  activeSessions: number;
}

export interface StoredUser {
  record: UserRecord;
  /** The readable id. */
  user: string;
  agents: number;
  /** The user's own quota, or null if the general quota applies. */
  agentsMax: number | null;
}

const statesByByte = new Map<number, AgentState>(agentStates.map((state) => [agentStateBytes[state], state]));
const sessionStatusesByByte = new Map<number, SessionStatus>(
  sessionStatuses.map((status) => [sessionStatusBytes[status], status]),
);

/** The state of a byte, or undefined for an unknown byte. */
export function agentStateOf(byte: number): AgentState | undefined {
  return statesByByte.get(byte);
}

export function sessionStatusOf(byte: number): SessionStatus | undefined {
  return sessionStatusesByByte.get(byte);
}

/** The state of a record that the codec has checked; it refuses every other byte. */
export function stateOf(record: AgentRecord): AgentState {
  return statesByByte.get(record.status) as AgentState;
}
