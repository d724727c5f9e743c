/** Each operation of a commit as the call of a service: the same code as the operation alone. */
import type { DataService } from '../datastore/service.js';
import { StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { RegistryService } from '../registry/service.js';
import type { WorkspacesService } from '../workspaces/service.js';
import { type MessagingPart, postToRoom, sendDirect } from './messages.js';
import type { Operation } from './schemas.js';

/** The services of every domain that can take part. */
export interface CommitServices {
  /** Null where the data is kept in a database that can't join. */
  data: DataService | null;
  registry: RegistryService;
  /** Null where workspaces are kept in a database that can't join. */
  workspaces: WorkspacesService | null;
  /** Null where messages are kept in a database that can't join. */
  messaging: MessagingPart | null;
}

export function runOperation(services: CommitServices, caller: Caller, operation: Operation): Promise<unknown> {
  switch (operation.op) {
    case 'data.set': {
      const { namespace, key, value, if_version: ifVersion, metadata, ttl, expiresAt } = operation;
      return dataOf(services).set(caller, namespace, key, value, { metadata, ttl, expiresAt, ifVersion });
    }
    case 'data.delete':
      return deleted(dataOf(services).delete(caller, operation.namespace, operation.key, { ifVersion: operation.if_version }));
    case 'data.increment':
      return dataOf(services).increment(caller, operation.namespace, operation.key, operation.by, { ifVersion: operation.if_version });
    case 'data.append':
      return dataOf(services).append(caller, operation.namespace, operation.key, operation.items, { ifVersion: operation.if_version });
    case 'agent.create': {
      const { op: _, ...input } = operation;
      return services.registry.createAgent(caller, input);
    }
    case 'agent.update': {
      const { op: _, agent_id, if_version: ifVersion, fence, ...input } = operation;
      return services.registry.updateAgent(fenced(caller, fence), agent_id, input, { ifVersion });
    }
    case 'agent.heartbeat': {
      const { op: _, agent_id, fence, ...input } = operation;
      return services.registry.heartbeat(fenced(caller, fence), agent_id, input);
    }
    case 'session.update': {
      const { op: _, session_id, if_version: ifVersion, ...input } = operation;
      return workspacesOf(services).updateSession(caller, session_id, input, { ifVersion });
    }
    case 'task.create': {
      const { op: _, session_id, ...input } = operation;
      return workspacesOf(services).createTask(caller, session_id, input);
    }
    case 'task.claim': {
      const { op: _, project_id, ...input } = operation;
      return workspacesOf(services).claimTask(caller, project_id, input);
    }
    case 'task.heartbeat':
      return workspacesOf(services).heartbeatTask(caller, operation.task_id, { fence: operation.fence });
    case 'task.complete': {
      const { op: _, task_id, ...input } = operation;
      return workspacesOf(services).completeTask(caller, task_id, input);
    }
    case 'task.fail': {
      const { op: _, task_id, ...input } = operation;
      return workspacesOf(services).failTask(caller, task_id, input);
    }
    case 'task.cancel': {
      const { op: _, task_id, ...input } = operation;
      return workspacesOf(services).cancelTask(caller, task_id, input);
    }
    case 'room.post':
      return postToRoom(messagingOf(services), caller, operation);
    case 'dm.send':
      return sendDirect(messagingOf(services), caller, operation);
  }
}

async function deleted(outcome: Promise<boolean>): Promise<{ deleted: boolean }> {
  return { deleted: await outcome };
}

/** A fencing number of the operation's own counts before the one of the request. */
function fenced(caller: Caller, fence: number | undefined): Caller {
  return fence === undefined ? caller : { ...caller, fence };
}

function dataOf({ data }: CommitServices): DataService {
  if (data !== null) return data;
  throw new StoaError('unsupported', 'The data store is kept in a database that cannot take part in a commit.', {
    fix: 'Keep the data store embedded, or write to it apart from the commit.',
  });
}

function workspacesOf({ workspaces }: CommitServices): WorkspacesService {
  if (workspaces !== null) return workspaces;
  throw new StoaError('unsupported', 'Workspaces are kept in a database that cannot take part in a commit.', {
    fix: 'Keep workspaces embedded, or change them apart from the commit.',
  });
}

function messagingOf({ messaging }: CommitServices): MessagingPart {
  if (messaging !== null) return messaging;
  throw new StoaError('unsupported', 'Messages are kept in databases that cannot take part in a commit.', {
    fix: 'Keep messaging embedded, or post apart from the commit.',
  });
}
