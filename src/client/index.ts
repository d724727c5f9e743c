/** The client for Node and browsers: `import { Stoa } from 'stoa/client'`. */
import type { JsonValue } from '../datastore/model.js';
import { AgentClient } from './agent.js';
import type { CommitAnswer, CommitInput } from '../commit/schemas.js';
import { AdminClient } from './admin.js';
import type { AgentAnswer } from '../registry/schemas.js';
import { checkIsJson } from '../datastore/json.js';
import type { DataDocument } from '../datastore/model.js';
import type { DocumentChange } from '../datastore/watch.js';
import type { Task } from '../workspaces/model.js';
import { AgentsClient } from './agents.js';
import { type ChangeItem, ChangesClient } from './changes.js';
import { DataClient } from './data.js';
import type { AgentKeys } from './keys.js';
import { RoomClient, type RoomMessage } from './rooms.js';
import { TasksClient } from './tasks.js';
import { Transport, type TransportOptions } from './transport.js';
import { type WatchEvent, type WatchSettings, watch } from './watch.js';
import type { RoomChange } from './watch-room.js';
import { type DataTarget, agentsSource, dataSource, tasksSource } from './watch-sources.js';
import { ProjectsClient, SessionsClient, WorkspacesClient } from './workspaces.js';

export { type ErrorCode, StoaError } from '../errors.js';
export type { CommitAnswer, CommitInput } from '../commit/schemas.js';
export type { DataDocument, JsonValue, KeySummary, NamespaceSummary } from '../datastore/model.js';
export type { DocumentChange } from '../datastore/watch.js';
export type { CreateTokenInput, CreatedToken } from '../identity/schemas.js';
export type {
  AgentAnswer,
  CreateAgentInput,
  LeaseAnswer,
  ListAgentsInput,
  SessionAnswer,
  UpdateAgentInput,
  UserAnswer,
} from '../registry/schemas.js';
export type {
  Project,
  SessionStatus,
  Task,
  TaskStatus,
  WorkSession,
  Workspace,
  WorkspaceStatus,
} from '../workspaces/model.js';
export type {
  CompleteRequest,
  FailRequest,
  NewProject,
  NewSession,
  NewTask,
  NewWorkspace,
  ProjectPatch,
  SessionPatch,
  TaskPatch,
  WorkspacePatch,
} from '../workspaces/schemas.js';
export { AdminClient, type BackupAnswer } from './admin.js';
export {
  AgentClient,
  type CreatedRoom,
  type LinkConsent,
  type Profile,
  type SearchAnswer,
  type SearchResult,
} from './agent.js';
export {
  type AgentCallSettings,
  type AgentWriteSettings,
  AgentsClient,
  type IdentityLink,
  type KeepAliveSettings,
  LiveLease,
  type OpenSessionSettings,
} from './agents.js';
export {
  type ChangeItem,
  type ChangePage,
  ChangesClient,
  type ChangesFilter,
  type FollowSettings as FollowChangesSettings,
  type ReadChangesSettings,
} from './changes.js';
export {
  type BatchAnswer,
  type BatchSettings,
  type CallSettings,
  DataClient,
  type KeyResult,
  type ListSettings,
  type Page,
  type SetSettings,
  type WatchSettings as DataWatchSettings,
  type WriteSettings,
} from './data.js';
export {
  DirectClient,
  type DirectMessage,
  type DirectPage,
  type OpenedMessage,
  type ReadDirectSettings,
} from './direct.js';
export { AgentKeys, sealDirect } from './keys.js';
export { LostEvent } from './renewal.js';
export {
  type FollowSettings as FollowRoomSettings,
  type PostedMessage,
  type ReadSettings as ReadRoomSettings,
  RoomClient,
  type RoomMessage,
  type RoomPage,
  type RoomThread,
  isAuthentic,
} from './rooms.js';
export { type ClaimSettings, ClaimedTask, TasksClient } from './tasks.js';
export { Transport, type TransportOptions as StoaClientOptions } from './transport.js';
export type { WatchEvent, WatchSettings } from './watch.js';
export type { RoomChange } from './watch-room.js';
export type { DataTarget } from './watch-sources.js';
export {
  type ChangeSettings,
  type CreateSettings,
  type NamedPageSettings,
  type PageSettings,
  ProjectsClient,
  SessionsClient,
  WorkspacesClient,
} from './workspaces.js';

/** What `watch` watches. */
export type WatchTarget =
  | { data: DataTarget }
  | { agents: { id?: string | undefined } }
  | { tasks: { project: string } }
  | { room: { id: string; key?: string | undefined } };

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
  async commit(
    input: CommitInput,
    { idempotencyKey, signal }: { idempotencyKey?: string; signal?: AbortSignal } = {},
  ): Promise<CommitAnswer> {
    for (const [index, operation] of input.operations.entries()) {
      if (operation.op === 'data.set') checkIsJson(operation.value, `operations[${index}].value`);
      if (operation.op === 'data.append') checkIsJson(operation.items, `operations[${index}].items`);
    }
    const headers: Record<string, string> =
      idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
    return this.#transport.call('POST', '/v1/commit', {
      body: input,
      headers,
      signal,
      repeatable: idempotencyKey !== undefined,
    });
  }

  /**
   * What is there, then what happens to it, until the signal ends it: nothing is missed and nothing
   * told twice, also over broken connections. `since` goes on from a position without a snapshot.
   *
   * @example
   * for await (const event of stoa.watch({ tasks: { project: project.id }, signal })) {
   *   if (event.kind === 'snapshot') console.log('there are', event.items);
   *   else if (event.kind === 'changes') console.log('then', event.items);
   * }
   */
  watch<Value = JsonValue>(
    target: { data: DataTarget } & WatchSettings,
  ): AsyncGenerator<WatchEvent<DataDocument<Value>, DocumentChange>>;
  watch(
    target: { agents: { id?: string | undefined } } & WatchSettings,
  ): AsyncGenerator<WatchEvent<AgentAnswer, ChangeItem>>;
  watch(target: { tasks: { project: string } } & WatchSettings): AsyncGenerator<WatchEvent<Task, ChangeItem>>;
  watch(
    target: { room: { id: string; key?: string | undefined } } & WatchSettings,
  ): AsyncGenerator<WatchEvent<RoomMessage, RoomChange>>;
  watch(target: WatchTarget & WatchSettings): AsyncGenerator<WatchEvent<unknown, unknown>> {
    if ('room' in target) return this.room(target.room.id, target.room.key).watch(target);
    if ('data' in target) return watch(this.changes, dataSource(this.#transport, target.data), target);
    if ('agents' in target) return watch(this.changes, agentsSource(this.#transport, target.agents), target);
    return watch(this.changes, tasksSource(this.#transport, target.tasks), target);
  }

  /** A namespace of the data store; `default` unless named. */
  data<Value = JsonValue>(namespace?: string): DataClient<Value> {
    return new DataClient<Value>(this.#transport, namespace);
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
