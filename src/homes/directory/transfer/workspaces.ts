/** Workspaces, projects, sessions and tasks, as exports have them. */
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Sealer } from '../../../secrets/sealer.js';
import type {
  ProjectLine,
  TaskLine,
  WorkSessionLine,
  WorkspaceLine,
} from '../../../transfer/records/record-schemas.js';
import { ofAnotherUser, orphan, recordNameTaken, slotTaken } from '../../../transfer/import/conflicts.js';
import type { Conflict } from '../../../transfer/model.js';
import type { RecordStore } from '../../../transfer/port.js';
import {
  projectEssence,
  projectLine,
  projectOf,
  sessionLine,
  taskLine,
  workspaceLine,
  workspaceOf,
} from '../../../transfer/records/workspace-lines.js';
import { type Project, type Task, type WorkSession, holdsSlot, isOpen } from '../../../workspaces/model.js';
import { idOfName } from '../workspaces/verbs.js';
import { buckets } from '../workspaces/keys.js';
import { projectRecords, sessionRecords, workspaceRecords } from '../workspaces/indexes.js';
import { decodeRecord, openTasks, readLease, readRecord } from '../workspaces/rows.js';
import { activeSession, scheduleDeadline } from '../workspaces/sessions.js';
import { type DependantsContext, becameReady } from '../workspaces/tasks/dependants.js';
import { addTask, removeTask, storeLease } from '../workspaces/tasks/rows.js';
import { countActiveTasks, countOpenTasks, sessionPath } from '../workspaces/tree.js';
import { FamilyRecords } from './records.js';
import { recordImported } from '../../../workspaces/changes.js';
import { releasedLease } from '../../../workspaces/tasks/tasks.js';

export interface WorkspacesRecordsOptions {
  sealer: Sealer;
  context: Pick<DependantsContext, 'lines' | 'waiters'>;
  /** A user exists from its first write. */
  onOwner: (tx: Transaction, user: string) => void;
}

export function workspacesRecords(
  kernel: Kernel,
  options: WorkspacesRecordsOptions,
): [type: string, store: RecordStore][] {
  return [
    ['workspaces.workspace', workspaceLines(kernel, options)],
    ['workspaces.project', projectLines(kernel, options)],
    ['workspaces.session', sessionLines(kernel)],
    ['workspaces.task', taskLines(kernel, options)],
  ];
}

function workspaceLines(
  kernel: Kernel,
  { sealer, onOwner }: WorkspacesRecordsOptions,
): FamilyRecords<WorkspaceLine> {
  return new FamilyRecords<WorkspaceLine>(kernel, {
    family: buckets.workspaces,
    read: (_reader, { value }, { withSecrets }) =>
      workspaceLine(decodeRecord('workspace', value), withSecrets ? sealer : null),
    userOf: ({ user }) => user,
    stored: (reader, { id }) =>
      withLine(readRecord(reader, 'workspace', id), (workspace) => workspaceLine(workspace, null)),
    essence: ({ claude_key: _claude_key, ...rest }) => rest,
    obstacle: (reader, { user, id, name, deleted_at }) => {
      const existing = readRecord(reader, 'workspace', id);
      if (existing !== undefined && existing.owner_id !== user) return ofAnotherUser(id);
      return nameObstacle(reader, 'workspace', user, name, id, deleted_at);
    },
    put: (tx, line) => {
      onOwner(tx, line.user);
      const before = readRecord(tx, 'workspace', line.id);
      const after = workspaceOf(line, before, sealer);
      workspaceRecords.put(tx, before, after);
      tx.change(recordImported('workspace', { ...after, user: line.user }));
    },
    directoryIds: ({ id }) => [id],
  });
}

function projectLines(kernel: Kernel, { sealer }: WorkspacesRecordsOptions): FamilyRecords<ProjectLine> {
  return new FamilyRecords<ProjectLine>(kernel, {
    family: buckets.projects,
    read: (reader, { value }, { withSecrets }) =>
      ownedProject(reader, decodeRecord('project', value), withSecrets ? sealer : null),
    userOf: ({ user }) => user,
    stored: (reader, { id }) =>
      withLine(readRecord(reader, 'project', id), (project) => ownedProject(reader, project, null)),
    essence: (line) => projectEssence(line, sealer),
    obstacle: (reader, { user, id, workspace_id, name, deleted_at }, coming) => {
      if (coming?.references !== true && readRecord(reader, 'workspace', workspace_id)?.owner_id !== user)
        return orphan(`The workspace ${workspace_id}`);
      return nameObstacle(reader, 'project', workspace_id, name, id, deleted_at);
    },
    put: (tx, line) => putProject(tx, line, sealer),
    directoryIds: ({ id }) => [id],
  });
}

function sessionLines(kernel: Kernel): FamilyRecords<WorkSessionLine> {
  return new FamilyRecords<WorkSessionLine>(kernel, {
    family: buckets.sessions,
    read: (reader, { value }) => ownedSession(reader, decodeRecord('session', value)),
    userOf: ({ user }) => user,
    stored: (reader, { id }) =>
      withLine(readRecord(reader, 'session', id), (session) => ownedSession(reader, session)),
    obstacle: (reader, { user, id, project_id, status }, coming) => {
      if (coming?.references !== true && ownerOfProject(reader, project_id) !== user)
        return orphan(`The project ${project_id}`);
      const holder = holdsSlot(status) ? activeSession(reader, project_id) : undefined;
      return holder === undefined || holder.id === id ? null : slotTaken(holder.id);
    },
    put: (tx, { type: _type, user, ...session }) => {
      sessionRecords.put(tx, readRecord(tx, 'session', session.id), session);
      scheduleDeadline(tx, session);
      tx.change(recordImported('session', { ...session, user }, { project: session.project_id }));
    },
    directoryIds: ({ id }) => [id],
  });
}

function taskLines(kernel: Kernel, { context }: WorkspacesRecordsOptions): FamilyRecords<TaskLine> {
  return new FamilyRecords<TaskLine>(kernel, {
    family: buckets.tasks,
    read: (reader, { value }) => ownedTask(reader, decodeRecord('task', value)),
    userOf: ({ user }) => user,
    stored: (reader, { id }) => withLine(readRecord(reader, 'task', id), (task) => ownedTask(reader, task)),
    essence: ({ lease: _lease, ...rest }) => rest,
    obstacle: (reader, { user, session_id }, coming) =>
      coming?.references === true || sessionPath(reader, session_id)?.workspace.owner_id === user
        ? null
        : orphan(`The session ${session_id}`),
    put: (tx, line) => putTask(tx, line, context),
    directoryIds: ({ id }) => [id],
  });
}

function putProject(tx: Transaction, line: ProjectLine, sealer: Sealer): void {
  const before = readRecord(tx, 'project', line.id);
  const after = projectOf(line, before, sealer);
  projectRecords.put(tx, before, after);
  // Open tasks count in the workspace of a live project only.
  const open = openTasks(tx, 'project', line.id);
  if (before !== undefined && before.deleted_at === null) countActiveTasks(tx, before.workspace_id, -open);
  if (after.deleted_at === null) countActiveTasks(tx, after.workspace_id, open);
  tx.change(recordImported('project', { ...after, user: line.user }, { workspace: after.workspace_id }));
}

function putTask(
  tx: Transaction,
  { type: _type, user, lease, ...task }: TaskLine,
  context: WorkspacesRecordsOptions['context'],
): void {
  const path = sessionPath(tx, task.session_id);
  if (path === undefined) return;
  const home = { projectId: path.project.id, ownerId: path.workspace.owner_id };
  const before = readRecord(tx, 'task', task.id);
  const stored = readLease(tx, task.id);
  const beforePath = before === undefined ? undefined : sessionPath(tx, before.session_id);
  if (before !== undefined && beforePath !== undefined) {
    if (isOpen(before.status)) countOpenTasks(tx, { ...beforePath, sessionId: before.session_id }, -1);
    removeTask(tx, before, { projectId: beforePath.project.id, ownerId: beforePath.workspace.owner_id });
  }
  const isReady = addTask(tx, task, home);
  // A fencing number that this home gave out must never be given out again.
  const after = lease ?? (stored && { ...releasedLease(stored), resultDigest: null });
  if (after !== undefined)
    storeLease(tx, task.id, readLease(tx, task.id), {
      ...after,
      fence: Math.max(after.fence, stored?.fence ?? 0),
    });
  // Read again, because the removal above has changed the counts of the workspace.
  const pathNow = isOpen(task.status) ? sessionPath(tx, task.session_id) : undefined;
  if (pathNow !== undefined) countOpenTasks(tx, { ...pathNow, sessionId: task.session_id }, 1);
  tx.change(recordImported('task', { ...task, user }, { project: home.projectId, session: task.session_id }));
  if (isReady) becameReady(tx, context, task, home.projectId);
}

function nameObstacle(
  reader: Reader,
  entity: 'workspace' | 'project',
  parent: string,
  name: string,
  id: string,
  deletedAt: string | null,
): Conflict | null {
  const taken = deletedAt === null ? idOfName(reader, entity, parent, name) : undefined;
  return taken === undefined || taken === id ? null : recordNameTaken(entity, name, taken);
}

function ownerOfProject(reader: Reader, id: string): string | undefined {
  const project = readRecord(reader, 'project', id);
  return project === undefined ? undefined : readRecord(reader, 'workspace', project.workspace_id)?.owner_id;
}

function withLine<Stored, Line>(
  stored: Stored | undefined,
  lineOf: (stored: Stored) => Line | undefined,
): Line | undefined {
  return stored === undefined ? undefined : lineOf(stored);
}

/** A record that is being purged has no parents and is not exported. */
function ownedProject(reader: Reader, project: Project, sealer: Sealer | null): ProjectLine | undefined {
  const user = readRecord(reader, 'workspace', project.workspace_id)?.owner_id;
  return user === undefined ? undefined : projectLine(project, user, sealer);
}

function ownedSession(reader: Reader, session: WorkSession): WorkSessionLine | undefined {
  const user = ownerOfProject(reader, session.project_id);
  return user === undefined ? undefined : sessionLine(session, user);
}

function ownedTask(reader: Reader, task: Task): TaskLine | undefined {
  const user = sessionPath(reader, task.session_id)?.workspace.owner_id;
  return user === undefined ? undefined : taskLine(task, user, readLease(reader, task.id));
}
