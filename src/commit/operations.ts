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

/** The step of the operation at `index`, for every operation but messages. */
export function stepOf(
  { data, registry, workspaces, locks }: CommitSteps,
  caller: Caller,
  operation: Exclude<Operation, MessageOperation>,
  index: number,
  modified: ModifiedBytes,
): Step<unknown> {
  switch (operation.op) {
    case 'data.set': {
      const { namespace, key, value, if_version: ifVersion, metadata, ttl, expiresAt, index } = operation;
      return data.set(caller, namespace, key, value, { metadata, ttl, expiresAt, index, ifVersion });
    }
    case 'data.delete':
      return data
        .delete(caller, operation.namespace, operation.key, { ifVersion: operation.if_version })
        .map((deleted) => ({ deleted }));
    case 'data.increment':
      return data
        .increment(caller, operation.namespace, operation.key, operation.by, {
          ifVersion: operation.if_version,
        })
        .map((result) => modified.counted(index, result));
    case 'data.append':
      return data
        .append(caller, operation.namespace, operation.key, operation.items, {
          ifVersion: operation.if_version,
        })
        .map(({ key, version, sizeBytes, updatedAt, created }) =>
          modified.counted(index, { key, version, sizeBytes, updatedAt, created }),
        );
    case 'agent.create': {
      const { op: _, ...input } = operation;
      return registry.createAgent(caller, input);
    }
    case 'agent.update': {
      const { op: _, agent_id, if_version: ifVersion, fence, ...input } = operation;
      return registry.updateAgent(fenced(caller, fence), agent_id, input, { ifVersion });
    }
    case 'agent.heartbeat': {
      const { op: _, agent_id, fence, ...input } = operation;
      return registry.heartbeat(fenced(caller, fence), agent_id, input);
    }
    case 'session.update': {
      const { op: _, session_id, if_version: ifVersion, ...input } = operation;
      return workspaces.updateSession(caller, session_id, input, ifVersion);
    }
    case 'task.create': {
      const { op: _, session_id, ...input } = operation;
      return workspaces.createTask(caller, session_id, input);
    }
    case 'task.claim': {
      // The caller is this agent already.
      const { op: _, project_id, agent_id: _agent, ...input } = operation;
      return workspaces.claimNow(caller, project_id, input);
    }
    case 'task.heartbeat':
      return workspaces.heartbeatTask(caller, operation.task_id, { fence: operation.fence });
    case 'task.complete': {
      const { op: _, task_id, ...input } = operation;
      return workspaces.completeTask(caller, task_id, input);
    }
    case 'task.fail': {
      const { op: _, task_id, ...input } = operation;
      return workspaces.failTask(caller, task_id, input);
    }
    case 'task.ask': {
      const { op: _, task_id, ...input } = operation;
      return workspaces.askQuestion(caller, task_id, input);
    }
    case 'task.answer': {
      const { op: _, task_id, ...input } = operation;
      return workspaces.answerQuestion(caller, task_id, input);
    }
    case 'task.cancel': {
      const { op: _, task_id, ...input } = operation;
      return workspaces.cancelTask(caller, task_id, input);
    }
    case 'lock.acquire': {
      const { op: _, name, ...input } = operation;
      return locks.acquire(caller, name, input).map(({ lock }) => lock);
    }
    case 'lock.release': {
      const { op: _, name, ...input } = operation;
      return locks.release(caller, name, input);
    }
  }
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
