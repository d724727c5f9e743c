/** The methods of every caller, with a token or a signature. No Node built-ins. */
import type { AnswerOf, CallSettings, InputOf } from '../api/call.js';
import { find } from '../api/find/operations.js';
import { commits } from '../api/feed/operations.js';
import { aicqRooms, identities } from '../api/messaging/operations.js';
import { profiles, rooms } from '../api/rooms/operations.js';
import { projects, sessions, workspaces } from '../api/workspaces/operations.js';
import type { CommitAnswer, CommitInput } from '../commit/schemas.js';
import { checkIsJson } from '../datastore/documents/json.js';
import type { DataDocument, JsonValue } from '../datastore/model.js';
import type { DocumentChange } from '../datastore/watch.js';
import type { AgentAnswer } from '../registry/schemas.js';
import type { Task } from '../workspaces/model.js';
import { type AgentsClient, agentsClient } from './agents.js';
import { type ChangeItem, ChangesClient } from './watch/changes.js';
import { DataClient } from './data.js';
import { type InboxClient, inboxClient } from './direct.js';
import { type LocksClient, locksClient } from './locks.js';
import { followMessages } from './watch/follow.js';
import { type Methods, methodsOf } from './methods.js';
import { RoomClient, type RoomMessage } from './rooms.js';
import { type TasksClient, tasksClient } from './tasks.js';
import type { Transport } from './transport/transport.js';
import { type WatchEvent, type WatchSettings, watch } from './watch/watch.js';
import type { RoomChange } from './watch/room.js';
import { type DataTarget, agentsSource, dataSource, tasksSource } from './watch/sources.js';

export type WatchTarget =
  | { data: DataTarget }
  | { agents: { id?: string | undefined } }
  | { tasks: { project: string } }
  | { room: { id: string; key?: string | undefined } };

/** One caller's view of a server. */
export class Door {
  /** The registry of agents. */
  readonly agents: AgentsClient;
  /** The change feed. */
  readonly changes: ChangesClient;
  readonly workspaces: Methods<'workspaces'>;
  readonly projects: Methods<'projects'>;
  readonly sessions: Methods<'sessions'>;
  readonly tasks: TasksClient;
  readonly locks: LocksClient;
  /** The rooms of the user and public ones: list, create, change, delete. `room` is a handle on one room. */
  readonly rooms: Methods<'rooms'>;
  /** Direct messages to the caller, and from the caller to other agents. */
  readonly inbox: InboxClient;
  /** The identities of agents, by the name or id of an agent, or by their own id. */
  readonly profiles: Methods<'profiles'>;
  /** Identities by the rules of AICQ: register, change, rotate. */
  readonly identities: Methods<'identities'>;
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
    this.agents = agentsClient(transport);
    this.changes = new ChangesClient(transport);
    this.workspaces = methodsOf(transport, 'workspaces', workspaces);
    this.projects = methodsOf(transport, 'projects', projects);
    this.sessions = methodsOf(transport, 'sessions', sessions);
    this.tasks = tasksClient(transport);
    this.locks = locksClient(transport);
    this.rooms = methodsOf(transport, 'rooms', rooms);
    this.inbox = inboxClient(transport);
    this.profiles = methodsOf(transport, 'profiles', profiles);
    this.identities = methodsOf(transport, 'identities', identities);
  }

  /**
   * Runs several operations of any domain, all or none. A conflict is an answer: `{ok: false, failed}`.
   *
   * @example
   * const outcome = await stoa.commit({
   *   checks: [{ check: 'data', key: 'leader', version: null }],
   *   operations: [{ op: 'data.set', key: 'leader', value: 'me' }],
   * });
   */
  async commit(
    input: CommitInput,
    settings: { idempotencyKey?: string; fence?: number } & CallSettings = {},
  ): Promise<CommitAnswer> {
    for (const [index, operation] of input.operations.entries()) {
      if (operation.op === 'data.set') checkIsJson(operation.value, `operations[${index}].value`);
      if (operation.op === 'data.append') checkIsJson(operation.items, `operations[${index}].items`);
    }
    return methodsOf(this.transport, 'commits', commits).create(input, settings);
  }

  /**
   * Searches documents, tasks and messages: by words, the best first, or by a filter on values.
   *
   * @example
   * const { items } = await stoa.find('which database did we choose', { in: ['data'] });
   */
  find(
    words: string | undefined,
    request: Omit<InputOf<'find.query'>, 'q'> & CallSettings = {},
  ): Promise<AnswerOf<'find.query'>> {
    const { signal, ...rest } = request;
    return methodsOf(this.transport, 'find', find).query({ ...rest, q: words }, { signal });
  }

  /**
   * Files the user's documents and tasks again for the search; for an operator without a user, everything.
   *
   * @example
   * const { filed } = await stoa.reindex({ namespace: 'notes' });
   */
  reindex(request: InputOf<'find.reindex'> & CallSettings = {}): Promise<AnswerOf<'find.reindex'>> {
    const { signal, ...rest } = request;
    return methodsOf(this.transport, 'find', find).reindex(rest, { signal });
  }

  /**
   * The current items, then their changes, until the signal is aborted: without gaps and repeats, also
   * after broken connections. With `since` it continues from a position without a snapshot.
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
    if ('data' in target) return watch(this.changes, dataSource(this.transport, target.data), target);
    if ('agents' in target) return watch(this.changes, agentsSource(this.transport, target.agents), target);
    return watch(this.changes, tasksSource(this.transport, target.tasks), target);
  }

  /** A namespace of the data store; the default is `default`. */
  data<Value = JsonValue>(namespace?: string): DataClient<Value> {
    return new DataClient<Value>(this.transport, namespace);
  }

  /**
   * A room by its name or id; a private room needs its key. Messages of a caller with a token are signed by
   * an identity that the server keeps.
   */
  room(nameOrId: string, key?: string): RoomClient {
    return new RoomClient(this.transport, nameOrId, key);
  }

  /** New messages of several rooms in one stream, in the format of AICQ. Each message names its room. */
  streamRooms(
    ids: readonly string[],
    { key, ...settings }: { signal: AbortSignal; after?: number; key?: string },
  ): AsyncGenerator<AnswerOf<'aicqRooms.getMessage'> & { room_id: string }> {
    return followMessages(this.transport, aicqRooms.streamMany, { rooms: ids.join(','), key }, settings);
  }
}
