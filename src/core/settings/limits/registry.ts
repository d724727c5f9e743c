/** Limits of the registry: agents, leases and agent sessions. */
import type { LimitGroup } from './definition.js';

export const registryLimits = {
  agentsPerUserMax: {
    default: 100,
    setting: true,
    about: 'Agents of one user. Stopped agents count; lost agents that hold nothing do not.',
  },
  agentsLostMax: {
    default: 10_000,
    about: 'Lost agents of one user that are kept beside the agents that count.',
  },
  agentLostDays: {
    default: 30,
    positive: true,
    about: 'Days after which a lost agent that holds nothing is forgotten.',
  },
  agentPresenceSeconds: {
    default: 900,
    positive: true,
    about: 'Seconds that an agent counts as present after its last call, unless it sends heartbeats.',
  },
  agentPresenceRenewSeconds: {
    default: 10,
    about: 'Seconds after which the next call of an agent renews its presence.',
  },
  leaseSeconds: {
    default: 60,
    setting: true,
    positive: true,
    about: "Seconds that an agent's lease lives without a heartbeat.",
  },
  leaseGraceSeconds: {
    default: 30,
    setting: true,
    about: 'Seconds after the end of its lease before an agent counts as lost.',
  },
  idleAfterSeconds: {
    default: 300,
    setting: true,
    about: 'Seconds without activity before a running agent becomes idle; 0 means never.',
  },
  hibernateAfterSeconds: {
    default: 1_800,
    setting: true,
    about: 'Seconds idle before an agent hibernates; 0 means never.',
  },
  agentNamesComparedMax: {
    default: 1_000,
    about: 'Names of agents that an unknown name is compared with, to suggest a similar one.',
  },
  agentNameCharactersMax: { default: 100, about: 'Characters in an agent name.' },
  agentLabelsMax: { default: 32, about: 'Labels of one agent.' },
  labelCharactersMax: { default: 100, about: 'Characters in the name or value of a label.' },
  agentErrorCharactersMax: { default: 1_000, about: "Characters in an agent's error message." },
  runtimeVersionCharactersMax: { default: 100, about: 'Characters in a runtime version.' },
  leaseHolderBytesMax: { default: 256, about: 'Bytes in the name of a lease holder.' },
  heartbeatRecordSeconds: {
    default: 60,
    about: "Seconds that the last heartbeat in an agent's record may be out of date.",
  },
  lastSeenSeconds: {
    default: 60,
    about: "Seconds that the last call in a user's record may be out of date.",
  },
  listSeeksMax: {
    default: 10_000,
    positive: true,
    about: 'Index entries read for one page of agents with several filters. The page ends early there.',
  },
  sessionsPerAgentMax: { default: 1_000, about: 'Active sessions of one agent; 0 means no limit.' },
  sessionsDeletedAtOnceMax: {
    default: 1_000,
    positive: true,
    about: 'Sessions deleted in the same commit as their agent. Further ones are deleted in steps before it.',
  },
} as const satisfies LimitGroup;
