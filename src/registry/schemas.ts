/** Requests and answers of the registry: the one source for validation, OpenAPI, MCP and the CLI. */
import { z } from 'zod';
import { agentStates, sessionStatuses } from './model.js';

const u32 = z.int().min(0).max(0xffff_ffff);
const time = z.iso.datetime();
const hexId = z.string().describe('64 hexadecimal digits');
const labels = z.record(z.string(), z.string()).describe('Names and values for filtering agents');

export const agentStatusSchema = z.enum(agentStates);
export const sessionStatusSchema = z.enum(sessionStatuses);

const agentSpecSchema = z.strictObject({
  cpu_millicores: u32.optional().describe('Default: 500'),
  memory_mb: u32.optional().describe('Default: 512'),
  runtime_version: z.string().optional().describe('Default: "latest"'),
});

export const createAgentSchema = z.strictObject({
  name: z.string(),
  spec: agentSpecSchema.optional(),
  labels: labels.optional(),
});
export type CreateAgentInput = z.input<typeof createAgentSchema>;

/** A whole agent under an id that the caller chose. */
export const putAgentSchema = z.strictObject({
  agent_id: hexId,
  name: z.string(),
  status: agentStatusSchema.optional().describe('A new agent starts as "provisioning"'),
  spec: agentSpecSchema.optional(),
  labels: labels.optional(),
  error_message: z.string().nullable().optional(),
});
export type PutAgentInput = z.input<typeof putAgentSchema>;

/** Fields that are left out stay unchanged; `labels` are replaced as a whole. */
export const updateAgentSchema = z.strictObject({
  name: z.string().optional(),
  status: agentStatusSchema.optional(),
  spec: agentSpecSchema.optional(),
  labels: labels.optional(),
  error_message: z
    .string()
    .nullable()
    .optional()
    .describe('Only for an agent whose status is, or becomes, "error"'),
});
export type UpdateAgentInput = z.input<typeof updateAgentSchema>;

export const listAgentsSchema = z.strictObject({
  status: agentStatusSchema.optional(),
  name: z.string().optional().describe('The exact name'),
  label: z.string().optional().describe('`name` or `name=value`'),
  limit: z.int().min(1).optional(),
  cursor: z.string().optional(),
});
export type ListAgentsInput = z.input<typeof listAgentsSchema>;

export const pageSchema = z.strictObject({ limit: z.int().min(1).optional(), cursor: z.string().optional() });

export const listSessionsSchema = z.strictObject({
  status: sessionStatusSchema.optional(),
  limit: z.int().min(1).optional(),
  cursor: z.string().optional(),
});
export type ListSessionsInput = z.input<typeof listSessionsSchema>;

export const heartbeatSchema = z.strictObject({
  holder: z.string().optional().describe('Who holds the lease. Default: the caller'),
});
export type HeartbeatInput = z.input<typeof heartbeatSchema>;

export const openSessionSchema = z.strictObject({
  session_id: z.string().optional().describe('A UUID. Default: a new one'),
});
export type OpenSessionInput = z.input<typeof openSessionSchema>;

export const putUserSchema = z.strictObject({
  email: z.string().optional(),
  agents_max: z
    .int()
    .min(0)
    .nullable()
    .optional()
    .describe('How many agents this user may have; null for the default quota'),
});
export type PutUserInput = z.input<typeof putUserSchema>;

// Answers.

export const leaseSchema = z.object({ holder: z.string(), fence: z.int(), expires_at: time });
export type LeaseAnswer = z.output<typeof leaseSchema>;

export const agentSchema = z.object({
  agent_id: hexId,
  user_id: hexId,
  user: z.string().describe('The readable id of the owner'),
  name: z.string(),
  status: agentStatusSchema,
  spec: z.object({ cpu_millicores: u32, memory_mb: u32, runtime_version: z.string() }),
  labels,
  error_message: z.string().nullable(),
  created_at: time,
  updated_at: time,
  last_heartbeat_at: time.nullable(),
  version: z.int().min(1),
  presence: z.enum(['none', 'live', 'lapsed', 'lost']),
  lease: leaseSchema.nullable(),
  active_sessions: z.int().min(0),
});
export type AgentAnswer = z.output<typeof agentSchema>;

export const sessionSchema = z.object({
  session_id: z.string(),
  agent_id: hexId,
  user_id: hexId,
  status: sessionStatusSchema,
  created_at: time,
  closed_at: time.nullable(),
});
export type SessionAnswer = z.output<typeof sessionSchema>;

export const userSchema = z.object({
  user_id: hexId,
  user: z.string().describe('The readable id'),
  email: z.string(),
  created_at: time,
  last_seen_at: time,
  agents: z.int().min(0),
  agents_max: z.int().min(0),
});
export type UserAnswer = z.output<typeof userSchema>;
