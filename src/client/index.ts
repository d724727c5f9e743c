/** The client for Node and browsers: `import { Stoa } from 'stoa/client'`. */
import type { JsonValue } from '../datastore/model.js';
import { AgentClient } from './agent.js';
import type { CommitAnswer, CommitInput } from '../commit/schemas.js';
import { AdminClient } from './admin.js';
import { AgentsClient } from './agents.js';
import { ChangesClient } from './changes.js';
import { DataClient } from './data.js';
import type { AgentKeys } from './keys.js';
import { RoomClient } from './rooms.js';
import { TasksClient } from './tasks.js';
import { Transport, type TransportOptions } from './transport.js';
import { ProjectsClient, SessionsClient, WorkspacesClient } from './workspaces.js';

export { StoaError } from '../errors.js';
export type { DataDocument, JsonValue, KeySummary, NamespaceSummary } from '../datastore/model.js';
export type { DocumentChange } from '../datastore/watch.js';
export { AgentClient } from './agent.js';
export type { CommitAnswer, CommitInput } from '../commit/schemas.js';
export type { AgentAnswer, LeaseAnswer, SessionAnswer, UserAnswer } from '../registry/schemas.js';
export { AdminClient } from './admin.js';
export { AgentsClient, type KeepAliveSettings, type LiveLease } from './agents.js';
export { type ChangeItem, type ChangePage, ChangesClient } from './changes.js';
export { type BatchAnswer, type BatchSettings, DataClient, type KeyResult } from './data.js';
export type { DirectMessage, OpenedMessage } from './direct.js';
export { AgentKeys, sealDirect } from './keys.js';
export { RoomClient, type RoomMessage, type RoomPage, isAuthentic } from './rooms.js';
export type { Project, Task, WorkSession, Workspace } from '../workspaces/model.js';
export { ClaimedTask, LostEvent, TasksClient } from './tasks.js';
export { ProjectsClient, SessionsClient, WorkspacesClient } from './workspaces.js';
export type { TransportOptions as StoaClientOptions } from './transport.js';

/**
 * A Stoa server, as one user and agent see it.
 *
 * @example
 * const stoa = new Stoa({ url: 'http://127.0.0.1:7862', token: process.env.STOA_TOKEN, agent: 'planner' });
 * const notes = stoa.data('notes');
 */
export class Stoa {
  /** The registry of agents. */
  readonly agents: AgentsClient;
  /** The change feed. */
  readonly changes: ChangesClient;
  /** What only the operator may. */
  readonly admin: AdminClient;
  readonly workspaces: WorkspacesClient;
  readonly projects: ProjectsClient;
  readonly sessions: SessionsClient;
  readonly tasks: TasksClient;
  readonly #transport: Transport;
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
    this.agents = new AgentsClient(this.#transport);
    this.changes = new ChangesClient(this.#transport);
    this.admin = new AdminClient(this.#transport);
    this.workspaces = new WorkspacesClient(this.#transport);
    this.projects = new ProjectsClient(this.#transport);
    this.sessions = new SessionsClient(this.#transport);
    this.tasks = new TasksClient(this.#transport);
  }

  /**
   * Several operations of any domain, all or none. A conflict is an answer: `{ok: false, failed}`.
   *
   * @example
   * const outcome = await stoa.commit({
   *   checks: [{ check: 'data', key: 'leader', version: null }],
   *   operations: [{ op: 'data.set', key: 'leader', value: 'me' }],
   * });
   */
  commit(input: CommitInput, { idempotencyKey, signal }: { idempotencyKey?: string; signal?: AbortSignal } = {}): Promise<CommitAnswer> {
    const headers: Record<string, string> = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
    return this.#transport.call('POST', '/v1/commit', { body: input, headers, signal, repeatable: idempotencyKey !== undefined });
  }

  /** A namespace of the data store; `default` unless named. */
  data<Value = JsonValue>(namespace?: string): DataClient<Value> {
    return new DataClient<Value>(this.#transport, namespace, this.#options.user);
  }

  /** A room, read and written with the token: what it posts is signed by an identity that the server keeps. */
  room(id: string, key?: string): RoomClient {
    return new RoomClient(this.#transport, id, key);
  }

  /** An agent that signs for itself with its own keys; `id` where it is registered already. */
  agent(keys: AgentKeys, id?: string): AgentClient {
    return new AgentClient(this.#options, keys, id);
  }
}
