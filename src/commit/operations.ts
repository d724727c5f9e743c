/** The steps of each operation and check of a commit: the same steps as for the operation alone. */
import type { Caller } from '../core/caller.js';
import type { Step } from '../core/write.js';
import type { DataSteps } from '../datastore/steps.js';
import type { LocksSteps } from '../locks/steps.js';
import type { RegistrySteps } from '../registry/steps.js';
import type { WorkspacesSteps } from '../workspaces/steps.js';
import type { ModifiedBytes } from './modified-bytes.js';
import type { Check, Operation } from './schemas.js';

export type MessageOperation = Extract<Operation, { op: 'room.post' | 'dm.send' }>;

/** Where the steps of each domain come from. */
export interface CommitSteps {
  readonly data: DataSteps;
  readonly registry: RegistrySteps;
  readonly workspaces: WorkspacesSteps;
  readonly locks: LocksSteps;
}

/** Whether the operation sends a message. */
export function isMessage(operation: Operation): operation is MessageOperation {
  return operation.op === 'room.post' || operation.op === 'dm.send';
}

type Part = Exclude<Operation, MessageOperation>;

/** Where an operation belongs: who commits it, and its index among the operations. */
interface Place {
  readonly caller: Caller;
  readonly index: number;
  readonly modified: ModifiedBytes;
}

/** By the name of the operation, for every operation but messages. */
const makers: {
  readonly [Op in Part['op']]: (
    steps: CommitSteps,
    place: Place,
    fields: Omit<Extract<Part, { op: Op }>, 'op'>,
  ) => Step<unknown>;
} = {
  'data.set': (
    { data },
    { caller },
    { namespace, key, value, if_version: ifVersion, metadata, ttl, expiresAt, index },
  ) => data.set(caller, namespace, key, value, { metadata, ttl, expiresAt, index, ifVersion }),
  'data.delete': ({ data }, { caller }, { namespace, key, if_version: ifVersion }) =>
    data.delete(caller, namespace, key, { ifVersion }).map((deleted) => ({ deleted })),
  'data.increment': ({ data }, { caller, index, modified }, { namespace, key, by, if_version: ifVersion }) =>
    data
      .increment(caller, namespace, key, by, { ifVersion })
      .map((result) => modified.counted(index, result)),
  'data.append': (
    { data },
    { caller, index, modified },
    { namespace, key: name, items, if_version: ifVersion },
  ) =>
    data
      .append(caller, namespace, name, items, { ifVersion })
      .map(({ key, version, sizeBytes, updatedAt, created }) =>
        modified.counted(index, { key, version, sizeBytes, updatedAt, created }),
      ),
  'agent.create': ({ registry }, { caller }, input) => registry.createAgent(caller, input),
  'agent.update': ({ registry }, { caller }, { agent_id, if_version: ifVersion, fence, ...input }) =>
    registry.updateAgent(fenced(caller, fence), agent_id, input, { ifVersion }),
  'agent.heartbeat': ({ registry }, { caller }, { agent_id, fence, ...input }) =>
    registry.heartbeat(fenced(caller, fence), agent_id, input),
  'session.update': ({ workspaces }, { caller }, { session_id, if_version: ifVersion, ...input }) =>
    workspaces.updateSession(caller, session_id, input, ifVersion),
  'task.create': ({ workspaces }, { caller }, { session_id, ...input }) =>
    workspaces.createTask(caller, session_id, input),
  'task.claim': ({ workspaces }, { caller }, { project_id, ...fields }) => {
    // The caller is this agent already.
    const { agent_id: _, ...input } = fields;
    return workspaces.claimNow(caller, project_id, input);
  },
  'task.heartbeat': ({ workspaces }, { caller }, { task_id, fence }) =>
    workspaces.heartbeatTask(caller, task_id, { fence }),
  'task.complete': ({ workspaces }, { caller }, { task_id, ...input }) =>
    workspaces.completeTask(caller, task_id, input),
  'task.fail': ({ workspaces }, { caller }, { task_id, ...input }) =>
    workspaces.failTask(caller, task_id, input),
  'task.ask': ({ workspaces }, { caller }, { task_id, ...input }) =>
    workspaces.askQuestion(caller, task_id, input),
  'task.answer': ({ workspaces }, { caller }, { task_id, ...input }) =>
    workspaces.answerQuestion(caller, task_id, input),
  'task.cancel': ({ workspaces }, { caller }, { task_id, ...input }) =>
    workspaces.cancelTask(caller, task_id, input),
  'lock.acquire': ({ locks }, { caller }, { name, ...input }) =>
    locks.acquire(caller, name, input).map(({ lock }) => lock),
  'lock.release': ({ locks }, { caller }, { name, ...input }) => locks.release(caller, name, input),
};

/** The step of an operation, for every operation but messages. */
export function stepOf(steps: CommitSteps, place: Place, { op, ...fields }: Part): Step<unknown> {
  // The name of the operation selects the maker for its fields.
  const make = makers[op] as (steps: CommitSteps, place: Place, fields: object) => Step<unknown>;
  return make(steps, place, fields);
}

export function stepOfCheck(
  { data, registry, workspaces, locks }: CommitSteps,
  caller: Caller,
  check: Check,
): Step<void> {
  switch (check.check) {
    case 'data':
      return data.requireVersion(caller, check.namespace, check.key, check.version ?? 0);
    case 'agent':
      return registry.requireAgentVersion(caller, check.agent_id, check.version);
    case 'lease':
      return registry.requireLease(caller, check.agent_id, check.fence);
    case 'task':
      return workspaces.requireTaskVersion(caller, check.task_id, check.version);
    case 'claim':
      return workspaces.requireClaim(caller, check.task_id, check.fence);
    case 'lock':
      return locks.require(caller, check.name, check.fence);
  }
}

/** The fencing number of the operation overrides the number of the request. */
function fenced(caller: Caller, fence: number | undefined): Caller {
  return fence === undefined ? caller : { ...caller, fence };
}
