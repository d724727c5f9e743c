/** The numbers of documents, agents, tasks, messages and leases of all users, for `/metrics`. */
import type { AgentState } from '../registry/model.js';
import type { TaskStatus } from '../workspaces/model.js';

export interface Census {
  readonly documents: number;
  readonly agents: Readonly<Partial<Record<AgentState, number>>>;
  readonly tasks: Readonly<Partial<Record<TaskStatus, number>>>;
  /** Ever posted in the rooms that exist. */
  readonly messages: number;
  /** Leases of agents and tasks that have not ended. */
  readonly leases: number;
}
