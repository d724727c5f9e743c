/** Workspaces, projects, sessions and tasks, as exports have them. */
import type { Kernel } from '../../kernel/kernel.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Sealer } from '../../secrets/sealer.js';
import type { ProjectLine, TaskLine, WorkSessionLine, WorkspaceLine } from '../../transfer/kinds.js';
import type { RecordStore } from '../../transfer/port.js';
import { openConfig, sealConfig, withStoredSecrets, withoutSecrets } from '../../workspaces/config-secrets.js';
import { type Project, type Task, type TaskLease, type WorkSession, type Workspace, holdsSlot, isOpen } from '../../workspaces/model.js';
import type { ReadyWaiters } from '../../workspaces/ready-waiters.js';
import { holderOfName } from './workspaces-holders.js';
import { buckets } from './workspaces-keys.js';
import { decodeRecord, readLease, readRecord, writeProject, writeSession, writeTask, writeWorkspace } from './workspaces-rows.js';
import { activeSession, scheduleDeadline } from './workspaces-sessions.js';
import { addTask, removeTask, storeLease } from './workspaces-task-rows.js';
import { countActiveTasks, countOpenTasks, sessionPath } from './workspaces-tree.js';
import { openTasks } from './workspaces-rows.js';
import { FamilyRecords, erased, orphan } from './transfer-records.js';

export interface WorkspacesRecordsOptions {
  sealer: Sealer;
  waiters: ReadyWaiters;
  /** A user exists from its first write. */
  onOwner: (tx: Transaction, user: string) => void;
}

export function workspacesRecords(kernel: Kernel, { sealer, waiters, onOwner }: WorkspacesRecordsOptions): [type: string, store: RecordStore][] {
  return [
    [
      'workspaces.workspace',
      erased(
        new FamilyRecords<WorkspaceLine>(kernel, {
          family: buckets.workspaces,
          read: (_reader, { value }, withSecrets) => workspaceLine(decodeRecord('workspace', value), withSecrets ? sealer : null),
          userOf: ({ user }) => user,
          stored: (reader, { id }) => withLine(readRecord(reader, 'workspace', id), (workspace) => workspaceLine(workspace, null)),
          essence: ({ claude_key: _claude_key, ...rest }) => rest,
          obstacle: (reader, { user, id, name, deleted_at }) => {
            const existing = readRecord(reader, 'workspace', id);
            if (existing !== undefined && existing.owner_id !== user) return { kind: 'name_taken', detail: `The workspace ${id} belongs to another user.` };
            return nameObstacle(reader, 'workspace', user, name, id, deleted_at);
          },
          put: (tx, line) => {
            onOwner(tx, line.user);
            const before = readRecord(tx, 'workspace', line.id);
            const { type: _type, user, claude_key, ...fields } = line;
            const key = claude_key === undefined ? (before?.claude_key ?? null) : claude_key === null ? null : sealer.seal(claude_key, line.id);
            const after = writeWorkspace(tx, before, { ...fields, owner_id: user, claude_key: key, active_tasks: before?.active_tasks ?? 0 });
            announce(tx, 'workspace', after, user);
          },
          directoryIds: ({ id }) => [id],
        }),
      ),
    ],
    [
      'workspaces.project',
      erased(
        new FamilyRecords<ProjectLine>(kernel, {
          family: buckets.projects,
          read: (reader, { value }, withSecrets) => projectLine(reader, decodeRecord('project', value), withSecrets ? sealer : null),
          userOf: ({ user }) => user,
          stored: (reader, { id }) => withLine(readRecord(reader, 'project', id), (project) => projectLine(reader, project, null)),
          // Secrets are sealed anew each time, and left out without --with-secrets: what is around them counts.
          essence: (line) => ({ ...line, config: withoutSecrets(sealConfig(line.config, line.id, sealer)) }),
          obstacle: (reader, { user, id, workspace_id, name, deleted_at }, coming) => {
            if (coming?.references !== true && readRecord(reader, 'workspace', workspace_id)?.owner_id !== user) return orphan(`The workspace ${workspace_id}`);
            return nameObstacle(reader, 'project', workspace_id, name, id, deleted_at);
          },
          put: (tx, line) => putProject(tx, line, sealer),
          directoryIds: ({ id }) => [id],
        }),
      ),
    ],
    [
      'workspaces.session',
      erased(
        new FamilyRecords<WorkSessionLine>(kernel, {
          family: buckets.sessions,
          read: (reader, { value }) => sessionLine(reader, decodeRecord('session', value)),
          userOf: ({ user }) => user,
          stored: (reader, { id }) => withLine(readRecord(reader, 'session', id), (session) => sessionLine(reader, session)),
          obstacle: (reader, { user, id, project_id, status }, coming) => {
            if (coming?.references !== true && ownerOfProject(reader, project_id) !== user) return orphan(`The project ${project_id}`);
            const holder = holdsSlot(status) ? activeSession(reader, project_id) : undefined;
            return holder === undefined || holder.id === id ? null : { kind: 'name_taken', detail: `The session ${holder.id} is the active one of the project.` };
          },
          put: (tx, { type: _type, user, ...session }) => {
            writeSession(tx, readRecord(tx, 'session', session.id), session);
            scheduleDeadline(tx, session);
            announce(tx, 'session', session, user);
          },
          directoryIds: ({ id }) => [id],
        }),
      ),
    ],
    [
      'workspaces.task',
      erased(
        new FamilyRecords<TaskLine>(kernel, {
          family: buckets.tasks,
          read: (reader, { value }) => taskLine(reader, decodeRecord('task', value)),
          userOf: ({ user }) => user,
          stored: (reader, { id }) => withLine(readRecord(reader, 'task', id), (task) => taskLine(reader, task)),
          essence: ({ lease: _lease, ...rest }) => rest,
          obstacle: (reader, { user, session_id }, coming) => (coming?.references === true || sessionPath(reader, session_id)?.workspace.owner_id === user ? null : orphan(`The session ${session_id}`)),
          put: (tx, line) => putTask(tx, line, waiters),
          directoryIds: ({ id }) => [id],
        }),
      ),
    ],
  ];
}

function putProject(tx: Transaction, { type: _type, user, ...fields }: ProjectLine, sealer: Sealer): void {
  const before = readRecord(tx, 'project', fields.id);
  const sealed = sealConfig(fields.config, fields.id, sealer);
  const after = writeProject(tx, before, { ...fields, config: before === undefined ? sealed : withStoredSecrets(sealed, before.config) });
  // Open tasks count in the workspace of a live project only.
  const open = openTasks(tx, 'project', fields.id);
  if (before !== undefined && before.deleted_at === null) countActiveTasks(tx, before.workspace_id, -open);
  if (after.deleted_at === null) countActiveTasks(tx, after.workspace_id, open);
  announce(tx, 'project', after, user);
}

function putTask(tx: Transaction, { type: _type, user, lease, ...task }: TaskLine, waiters: ReadyWaiters): void {
  const path = sessionPath(tx, task.session_id);
  if (path === undefined) return;
  const home = { projectId: path.project.id, ownerId: path.workspace.owner_id };
  const before = readRecord(tx, 'task', task.id);
  const fence = readLease(tx, task.id)?.fence ?? 0;
  const beforePath = before === undefined ? undefined : sessionPath(tx, before.session_id);
  if (before !== undefined && beforePath !== undefined) {
    if (isOpen(before.status)) countOpenTasks(tx, { ...beforePath, sessionId: before.session_id }, -1);
    removeTask(tx, before, { projectId: beforePath.project.id, ownerId: beforePath.workspace.owner_id });
  }
  const isReady = task.status === 'pending' && addTask(tx, task, home);
  if (task.status !== 'pending') writeTask(tx, undefined, task, { ...home, ready: false });
  if (lease !== null) storeLease(tx, task.id, readLease(tx, task.id), { ...lease, fence: Math.max(lease.fence, fence) });
  // Read again: the workspace counts what was taken away above.
  const pathNow = isOpen(task.status) ? sessionPath(tx, task.session_id) : undefined;
  if (pathNow !== undefined) countOpenTasks(tx, { ...pathNow, sessionId: task.session_id }, 1);
  announce(tx, 'task', task, user);
  if (isReady) waiters.wake(home.projectId);
}

function announce(tx: Transaction, noun: string, { id, version }: { id: string; version: number }, user: string): void {
  tx.change({ domain: 'workspaces', kind: `${noun}.imported`, id, user, version });
}

function nameObstacle(reader: Reader, entity: 'workspace' | 'project', parent: string, name: string, id: string, deletedAt: string | null): { kind: 'name_taken'; detail: string } | null {
  const holder = deletedAt === null ? holderOfName(reader, entity, parent, name) : undefined;
  return holder === undefined || holder === id ? null : { kind: 'name_taken', detail: `The ${entity} ${holder} has the name "${name}".` };
}

function ownerOfProject(reader: Reader, id: string): string | undefined {
  const project = readRecord(reader, 'project', id);
  return project === undefined ? undefined : readRecord(reader, 'workspace', project.workspace_id)?.owner_id;
}

function withLine<Stored, Line>(stored: Stored | undefined, lineOf: (stored: Stored) => Line | undefined): Line | undefined {
  return stored === undefined ? undefined : lineOf(stored);
}

function workspaceLine(workspace: Workspace, sealer: Sealer | null): WorkspaceLine {
  const { owner_id: user, claude_key, active_tasks: _active_tasks, ...fields } = workspace;
  const secret = sealer === null ? {} : { claude_key: claude_key === null ? null : sealer.open(claude_key, workspace.id) };
  return { type: 'workspaces.workspace', user, ...fields, ...secret };
}

/** What is being purged has lost what stands above it, and is not exported. */
function projectLine(reader: Reader, project: Project, sealer: Sealer | null): ProjectLine | undefined {
  const user = readRecord(reader, 'workspace', project.workspace_id)?.owner_id;
  if (user === undefined) return undefined;
  return { type: 'workspaces.project', user, ...project, config: sealer === null ? withoutSecrets(project.config) : openConfig(project.config, project.id, sealer) };
}

function sessionLine(reader: Reader, session: WorkSession): WorkSessionLine | undefined {
  const user = ownerOfProject(reader, session.project_id);
  return user === undefined ? undefined : { type: 'workspaces.session', user, ...session };
}

function taskLine(reader: Reader, task: Task): TaskLine | undefined {
  const user = sessionPath(reader, task.session_id)?.workspace.owner_id;
  return user === undefined ? undefined : { type: 'workspaces.task', user, ...task, lease: leaseOf(readLease(reader, task.id)) };
}

function leaseOf(stored: TaskLease | undefined): TaskLease | null {
  if (stored === undefined) return null;
  const { holder, fence, leaseSeconds, renewedAtMs, expiresAtMs, resultDigest } = stored;
  return { holder, fence, leaseSeconds, renewedAtMs, expiresAtMs, resultDigest };
}
