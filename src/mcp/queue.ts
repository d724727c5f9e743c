/**
 * A task queue without workspaces: a project is found or created by its name, and one session in it has the
 * tasks.
 */
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Task } from '../workspaces/model.js';
import type { WorkspacesService } from '../workspaces/service.js';

/** Marks the session for tasks of callers that opened no session. */
const queueMark = 'queue';
const defaultName = 'default';

export class TaskQueue {
  readonly #workspaces: WorkspacesService;
  readonly #caller: Caller;

  constructor(workspaces: WorkspacesService, caller: Caller) {
    this.#workspaces = workspaces;
    this.#caller = caller;
  }

  /** The id of a project given as `project`, `workspace/project` or id; undefined if it does not exist. */
  async find(reference: string = defaultName): Promise<string | undefined> {
    if (reference.startsWith('proj_')) return (await this.#workspaces.getProject(this.#caller, reference)).id;
    const [workspaceName, projectName] = namesOf(reference);
    const workspace = await this.#workspaceNamed(workspaceName);
    return workspace === undefined ? undefined : this.#projectNamed(workspace, projectName);
  }

  /** As `find`, but creates a missing project. */
  async ensure(reference: string = defaultName): Promise<string> {
    const found = await this.find(reference);
    if (found !== undefined) return found;
    const [workspaceName, projectName] = namesOf(reference);
    const workspace = await this.#made(
      () => this.#workspaceNamed(workspaceName),
      async () => (await this.#workspaces.createWorkspace(this.#caller, { name: workspaceName })).id,
    );
    return this.#made(
      () => this.#projectNamed(workspace, projectName),
      async () => (await this.#workspaces.createProject(this.#caller, workspace, { name: projectName })).id,
    );
  }

  async add(
    project: string,
    task: {
      command: string;
      priority?: number | undefined;
      depends_on?: string[] | undefined;
      max_attempts?: number | undefined;
      labels?: string[] | undefined;
      run_at?: string | undefined;
    },
  ): Promise<Task> {
    return this.#workspaces.createTask(this.#caller, await this.queueSession(project), task);
  }

  /** The session for tasks of callers that opened none. */
  async queueSession(project: string): Promise<string> {
    let cursor: string | undefined;
    do {
      const page = await this.#workspaces.listSessions(this.#caller, project, { status: 'pending', cursor });
      const queue = page.items.find(({ metadata }) => metadata[queueMark] === true);
      if (queue !== undefined) return queue.id;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    // Two callers may each create one at the same time: claims and lists use all sessions of the project.
    return (
      await this.#workspaces.createSession(this.#caller, project, {
        agent_id: null,
        metadata: { [queueMark]: true },
      })
    ).id;
  }

  async #workspaceNamed(name: string): Promise<string | undefined> {
    return (await this.#workspaces.listWorkspaces(this.#caller, { name, limit: 1 })).items[0]?.id;
  }

  async #projectNamed(workspace: string, name: string): Promise<string | undefined> {
    return (await this.#workspaces.listProjects(this.#caller, workspace, { name, limit: 1 })).items[0]?.id;
  }

  /** Another caller may create the record at the same time; that record is then used. */
  async #made(find: () => Promise<string | undefined>, make: () => Promise<string>): Promise<string> {
    const found = await find();
    if (found !== undefined) return found;
    try {
      return await make();
    } catch (error) {
      const other = error instanceof StoaError && error.code === 'already_exists' ? await find() : undefined;
      if (other === undefined) throw error;
      return other;
    }
  }
}

function namesOf(reference: string): [workspace: string, project: string] {
  const [first = '', second, ...rest] = reference.split('/');
  if (first === '' || second === '' || rest.length > 0) {
    throw new StoaError('invalid_request', `"${reference.slice(0, 100)}" is not a project name or id.`, {
      fix: 'Use "project", "workspace/project" or an id that begins with proj_.',
    });
  }
  return second === undefined ? [defaultName, first] : [first, second];
}
