/** What can be watched by the change feed: documents, agents, the tasks of a project. No Node built-ins. */
import type { DataDocument } from '../datastore/model.js';
import { type DocumentChange, namedIn } from '../datastore/watch.js';
import { StoaError } from '../errors.js';
import { encodeSegment } from '../path-segment.js';
import type { AgentAnswer } from '../registry/schemas.js';
import type { Project, Task, WorkSession } from '../workspaces/model.js';
import type { ChangeItem } from './changes.js';
import type { Page } from './data.js';
import type { Transport } from './transport.js';
import { type SnapshotPage, type WatchSource, untilAnswered } from './watch.js';
import { projectPath, sessionPath } from './workspaces.js';

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
    : { kind, ...namedIn(item.facts), version: item.version, at: new Date(item.at).toISOString(), position };
}

export function dataSource<Value>(
  transport: Transport,
  { namespace = 'default', key, prefix }: DataTarget,
): WatchSource<DataDocument<Value>, DocumentChange> {
  if (key !== undefined && prefix !== undefined)
    throw new StoaError('invalid_request', 'A watch is of a key or of a prefix, not of both.');
  const isMeant = (name: string | null): boolean => key === undefined || name === null || name === key;
  const path = `/v1/data/${encodeSegment(namespace)}`;
  const query = { values: 1, prefix: key ?? prefix };
  return {
    filter: { namespace, prefix: key ?? prefix },
    pages: async function* (signal) {
      if (key === undefined)
        return yield* listed<DataDocument<Value>>(
          transport,
          path,
          { ...query, limit: documentPageItems },
          signal,
        );
      // The key itself is the first of all that begin with it.
      const { body, position } = await transport.page<Page<DataDocument<Value>>>(path, {
        query: { ...query, limit: 1 },
        signal,
      });
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
  return {
    filter: { topics: ['agent'], id },
    pages: async function* (signal) {
      if (id === undefined)
        return yield* listed<AgentAnswer>(transport, '/v1/agents', { limit: agentPageItems }, signal);
      const { position } = await transport.page('/v1/agents', { query: { limit: 1 }, signal });
      yield {
        items: [await transport.call<AgentAnswer>('GET', `/v1/agents/${encodeURIComponent(id)}`, { signal })],
        position,
      };
    },
    stateOf: (agent) => ({ id: agent.agent_id, version: agent.version, updatedAtMs: agent.updated_at }),
    itemOf: (change) => change.id,
    changeOf: (change) => change,
  };
}

/** Every task of every session of the project. It ends when the project or its workspace is deleted. */
export function tasksSource(
  transport: Transport,
  { project }: { project: string },
): WatchSource<Task, ChangeItem> {
  let workspace: string | undefined;
  const ends = ({ kind, id }: ChangeItem): boolean =>
    /^(project|workspace)\.(deleted|purged)$/.test(kind) && (id === project || id === workspace);
  return {
    filter: {
      project,
      topics: [
        'task',
        'session.deleted',
        'project.updated',
        'project.imported',
        'project.deleted',
        'project.purged',
        'workspace.deleted',
        'workspace.purged',
      ],
    },
    prepare: async (signal) => {
      workspace = (await transport.call<Project>('GET', projectPath(project), { signal })).workspace_id;
    },
    pages: async function* (signal) {
      for await (const { items: sessions, position } of listed<WorkSession>(
        transport,
        `${projectPath(project)}/sessions`,
        { limit: workspacePageItems },
        signal,
      )) {
        yield { items: [], position };
        for (const { id } of sessions)
          yield* withoutMissing(
            listed<Task>(transport, `${sessionPath(id)}/tasks`, { limit: workspacePageItems }, signal),
          );
      }
    },
    stateOf: ({ id, version, updated_at }) => ({ id, version, updatedAtMs: Date.parse(updated_at) }),
    itemOf: ({ kind, id }) => (kind.startsWith('task.') ? id : undefined),
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

/** The pages of a list. The first fails when the server is away; for the others it is waited for. */
async function* listed<Item>(
  transport: Transport,
  path: string,
  query: Readonly<Record<string, string | number | undefined>>,
  signal: AbortSignal,
): AsyncGenerator<SnapshotPage<Item>> {
  let cursor: string | undefined;
  do {
    const ask = () => transport.page<Page<Item>>(path, { query: { ...query, cursor }, signal });
    const { body, position } = cursor === undefined ? await ask() : await untilAnswered(ask, signal);
    yield { items: body.items, position };
    cursor = body.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

/** A session that was deleted since it was listed has no tasks. */
async function* withoutMissing<Item>(
  pages: AsyncIterable<SnapshotPage<Item>>,
): AsyncGenerator<SnapshotPage<Item>> {
  try {
    yield* pages;
  } catch (error) {
    if (!(error instanceof StoaError) || error.code !== 'not_found') throw error;
  }
}
