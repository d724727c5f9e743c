/**
 * The targets of a watch by the change feed: documents, agents, the tasks of a project. No Node built-ins.
 */
import { data } from '../../api/datastore/operations.js';
import { agents } from '../../api/registry/operations.js';
import { projects, tasks } from '../../api/workspaces/operations.js';
import type { DataDocument } from '../../datastore/model.js';
import { type DocumentChange, namedIn } from '../../datastore/watch.js';
import { StoaError } from '../../core/errors.js';
import type { AgentAnswer } from '../../registry/schemas.js';
import type { Task } from '../../workspaces/model.js';
import type { ChangeItem } from './changes.js';
import type { Page } from '../data.js';
import { methodsOf, positionedMethodsOf } from '../methods.js';
import type { Transport } from '../transport/transport.js';
import { type SnapshotPage, type WatchSource, untilAnswered } from './watch.js';

export interface DataTarget {
  /** `default` unless given. */
  namespace?: string | undefined;
  /** This key alone. */
  key?: string | undefined;
  /** Only keys that begin with it. */
  prefix?: string | undefined;
}

const documentPageItems = 200;
const agentPageItems = 1_000;
const workspacePageItems = 100;
const kinds: Readonly<Record<string, DocumentChange['kind']>> = {
  'document.set': 'set',
  'document.deleted': 'deleted',
  'namespace.cleared': 'cleared',
};

export function documentChange(item: ChangeItem, position: string): DocumentChange | undefined {
  const kind = kinds[item.kind];
  return kind === undefined
    ? undefined
    : { kind, ...namedIn(item.facts), version: item.version, at: item.at, position };
}

export function dataSource<Value>(
  transport: Transport,
  { namespace = 'default', key, prefix }: DataTarget,
): WatchSource<DataDocument<Value>, DocumentChange> {
  if (key !== undefined && prefix !== undefined)
    throw new StoaError('invalid_request', 'The watch has both a key and a prefix. Use one of them.');
  const isMeant = (name: string | null): boolean => key === undefined || name === null || name === key;
  const calls = positionedMethodsOf(transport, 'data', data);
  const page = async (asked: { limit: number; cursor?: string | undefined; signal: AbortSignal }) => {
    const { body, position } = await calls.list(namespace, { values: true, prefix: key ?? prefix, ...asked });
    const found: Page<unknown> = body;
    // With `values` the items are documents. Only the caller knows the type of their values.
    return { body: found as Page<DataDocument<Value>>, position };
  };
  return {
    filter: { namespace, prefix: key ?? prefix },
    pages: async function* (signal) {
      if (key === undefined)
        return yield* listed((cursor) => page({ limit: documentPageItems, cursor, signal }), signal);
      // Among the keys with this prefix, the key itself is the first.
      const { body, position } = await page({ limit: 1, signal });
      yield { items: body.items.filter((item) => isMeant(item.key)), position };
    },
    ordered: true,
    stateOf: ({ key: id, version, updatedAt, expiresAt }) => ({
      id,
      version,
      updatedAtMs: Date.parse(updatedAt),
      ...(expiresAt !== null && { expiresAtMs: Date.parse(expiresAt) }),
    }),
    itemOf: ({ facts }) => String(facts?.['key']),
    changeOf: (item, position) => {
      const change = documentChange(item, position);
      return change !== undefined && isMeant(change.key) ? change : undefined;
    },
  };
}

export function agentsSource(
  transport: Transport,
  { id }: { id?: string | undefined },
): WatchSource<AgentAnswer, ChangeItem> {
  const calls = positionedMethodsOf(transport, 'agents', agents);
  return {
    filter: { topics: ['agent'], id },
    pages: async function* (signal) {
      if (id === undefined)
        return yield* listed((cursor) => calls.list({ limit: agentPageItems, cursor, signal }), signal);
      const { position } = await calls.list({ limit: 1, signal });
      yield { items: [await methodsOf(transport, 'agents', agents).get(id, { signal })], position };
    },
    stateOf: (agent) => ({
      id: agent.agent_id,
      version: agent.version,
      updatedAtMs: Date.parse(agent.updated_at),
    }),
    itemOf: (change) => change.id,
    changeOf: (change) => change,
  };
}

const taskTopics = [
  'task',
  'session.deleted',
  'project.updated',
  'project.imported',
  'project.deleted',
  'project.purged',
  'workspace.deleted',
  'workspace.purged',
];

/** Every task of every session of the project. It ends when the project or its workspace is deleted. */
export function tasksSource(
  transport: Transport,
  { project }: { project: string },
): WatchSource<Task, ChangeItem> {
  // The project may be given by its name.
  let id = project;
  let workspace: string | undefined;
  const inProject = positionedMethodsOf(transport, 'tasks', tasks);
  const ends = ({ kind, id: changed }: ChangeItem): boolean =>
    /^(project|workspace)\.(deleted|purged)$/.test(kind) && (changed === id || changed === workspace);
  return {
    get filter() {
      return { project: id, topics: taskTopics };
    },
    prepare: async (signal) => {
      ({ id, workspace_id: workspace } = await methodsOf(transport, 'projects', projects).get(project, {
        signal,
      }));
    },
    pages: (signal) =>
      listed((cursor) => inProject.list({ project: id, limit: workspacePageItems, cursor, signal }), signal),
    stateOf: ({ id, version, updated_at }) => ({ id, version, updatedAtMs: Date.parse(updated_at) }),
    itemOf: ({ kind, id: changed }) => (kind.startsWith('task.') ? changed : undefined),
    changeOf: (change) => {
      const { kind, facts } = change;
      if (kind === 'project.updated' || kind === 'project.imported') {
        if (typeof facts?.['workspace'] === 'string') workspace = facts['workspace'];
        return undefined;
      }
      return /^(task|session)\./.test(kind) || ends(change) ? change : undefined;
    },
    ends,
  };
}

/** The pages of a list. The first request fails if the server is unreachable; later ones wait for it. */
async function* listed<Item>(
  read: (cursor: string | undefined) => Promise<{ body: Page<Item>; position: string }>,
  signal: AbortSignal,
): AsyncGenerator<SnapshotPage<Item>> {
  let cursor: string | undefined;
  do {
    const ask = () => read(cursor);
    const { body, position } = cursor === undefined ? await ask() : await untilAnswered(ask, signal);
    yield { items: body.items, position };
    cursor = body.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
