/** The client for Node and browsers: `import { Stoa } from 'stoa/client'`. */
import { consoleOperations } from '../api/console/operations.js';
import { type AdminClient, adminClient } from './admin.js';
import { AgentClient } from './agent.js';
import { Door } from './door.js';
import { type Methods, methodsOf } from './methods.js';
import type { AgentKeys } from './transport/keys.js';
import { Transport, type TransportOptions } from './transport/transport.js';

export { type ErrorCode, StoaError } from '../core/errors.js';
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
export type { AdminClient, Lines } from './admin.js';
export { AgentClient, type LinkConsent, type Profile } from './agent.js';
export { type AgentsClient, type IdentityLink, type KeepAliveSettings, LiveLease } from './agents.js';
export {
  type ChangeItem,
  type ChangePage,
  ChangesClient,
  type ChangesFilter,
  type FollowSettings as FollowChangesSettings,
  type ReadChangesSettings,
} from './watch/changes.js';
export {
  type BatchAnswer,
  type BatchSettings,
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
  type InboxClient,
  type ReadDirectSettings,
  type SentMessage,
} from './direct.js';
export { AgentKeys, sealDirect } from './transport/keys.js';
export { LostEvent } from './renewal.js';
export {
  type FollowSettings as FollowRoomSettings,
  type PostedMessage,
  type ReadSettings as ReadRoomSettings,
  RoomClient,
  type RoomMessage,
  type RoomPage,
  isAuthentic,
} from './rooms.js';
export { HeldLock, type Lock, type LockSettings, type LocksClient } from './locks.js';
export { type ClaimSettings, ClaimedTask, type TasksClient } from './tasks.js';
export { Transport, type TransportOptions as StoaClientOptions } from './transport/transport.js';
export type { WatchEvent, WatchSettings } from './watch/watch.js';
export type { RoomChange } from './watch/room.js';
export type { DataTarget } from './watch/sources.js';
export { Door, type WatchTarget } from './door.js';
export type { Methods } from './methods.js';
export type { AnswerOf, CallSettings, InputOf, OperationName } from '../api/call.js';

/**
 * A Stoa server, as one user and agent see it.
 *
 * @example
 * const stoa = new Stoa({ url: 'http://127.0.0.1:7862', token: process.env.STOA_TOKEN, agent: 'planner' });
 * const notes = stoa.data('notes');
 */
export class Stoa extends Door {
  /** Operations of the operator, and those of a user for itself: users, tokens, backups, transfers. */
  readonly admin: AdminClient;
  /** Signing in to the console and out of it. */
  readonly console: Methods<'console'>;
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    super(new Transport(options));
    this.#options = options;
    this.admin = adminClient(this.transport);
    this.console = methodsOf(this.transport, 'console', consoleOperations);
  }

  /** An agent that signs with its own keys; `id` if it is already registered. */
  agent(keys: AgentKeys, id?: string): AgentClient {
    return new AgentClient(this.#options, keys, id);
  }
}
