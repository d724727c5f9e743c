/** Each operation of a commit as the call of a service: the same code as the operation alone. */
import type { WriteResult } from '../datastore/port.js';
import type { DataService } from '../datastore/service.js';
import { StoaError } from '../errors.js';
import type { Caller } from '../core/caller.js';
import type { RegistryService } from '../registry/service.js';
import type { WorkspacesService } from '../workspaces/service.js';
import { type MessagingPart, postToRoom, sendDirect } from './messages.js';
import type { Operation } from './schemas.js';

/** The services over one transaction; null for a domain that is kept elsewhere. */
export interface CommitServices {
  data: DataService | null;
  registry: RegistryService | null;
  workspaces: WorkspacesService | null;
  messaging: MessagingPart | null;
}

export function runOperation(
  services: CommitServices,
  caller: Caller,
  operation: Operation,
): Promise<unknown> {
  switch (operation.op) {
    case 'data.set': {
      const { namespace, key, value, if_version: ifVersion, metadata, ttl, expiresAt } = operation;
      return present(services.data).set(caller, namespace, key, value, {
        metadata,
        ttl,
        expiresAt,
        ifVersion,
      });
    }
    case 'data.delete':
      return deleted(
        present(services.data).delete(caller, operation.namespace, operation.key, {
          ifVersion: operation.if_version,
        }),
      );
    case 'data.increment':
      return present(services.data).increment(caller, operation.namespace, operation.key, operation.by, {
        ifVersion: operation.if_version,
      });
    case 'data.append':
      return withoutValue(
        present(services.data).append(caller, operation.namespace, operation.key, operation.items, {
          ifVersion: operation.if_version,
        }),
      );
    case 'agent.create': {
      const { op: _, ...input } = operation;
      return present(services.registry).createAgent(caller, input);
    }
    case 'agent.update': {
      const { op: _, agent_id, if_version: ifVersion, fence, ...input } = operation;
      return present(services.registry).updateAgent(fenced(caller, fence), agent_id, input, { ifVersion });
    }
    case 'agent.heartbeat': {
      const { op: _, agent_id, fence, ...input } = operation;
      return present(services.registry).heartbeat(fenced(caller, fence), agent_id, input);
    }
    case 'session.update': {
      const { op: _, session_id, if_version: ifVersion, ...input } = operation;
      return present(services.workspaces).updateSession(caller, session_id, input, { ifVersion });
    }
    case 'task.create': {
      const { op: _, session_id, ...input } = operation;
      return present(services.workspaces).createTask(caller, session_id, input);
    }
    case 'task.claim': {
      const { op: _, project_id, ...input } = operation;
      return present(services.workspaces).claimTask(caller, project_id, input);
    }
    case 'task.heartbeat':
      return present(services.workspaces).heartbeatTask(caller, operation.task_id, {
        fence: operation.fence,
      });
    case 'task.complete': {
      const { op: _, task_id, ...input } = operation;
      return present(services.workspaces).completeTask(caller, task_id, input);
    }
    case 'task.fail': {
      const { op: _, task_id, ...input } = operation;
      return present(services.workspaces).failTask(caller, task_id, input);
    }
    case 'task.cancel': {
      const { op: _, task_id, ...input } = operation;
      return present(services.workspaces).cancelTask(caller, task_id, input);
    }
    case 'room.post':
      return postToRoom(present(services.messaging), caller, operation);
    case 'dm.send':
      return sendDirect(present(services.messaging), caller, operation);
  }
}

async function deleted(outcome: Promise<boolean>): Promise<{ deleted: boolean }> {
  return { deleted: await outcome };
}

/** A list that grows must not come back whole with each append. */
async function withoutValue(outcome: Promise<WriteResult & { value: unknown }>): Promise<WriteResult> {
  const { value: _, ...written } = await outcome;
  return written;
}

/** A fencing number of the operation's own counts before the one of the request. */
function fenced(caller: Caller, fence: number | undefined): Caller {
  return fence === undefined ? caller : { ...caller, fence };
}

/** Where a commit runs was chosen by what it touches, so the services of that are there. */
function present<Service>(service: Service | null): Service {
  if (service === null)
    throw new StoaError('internal', 'A commit runs where one of its domains is not kept.');
  return service;
}
