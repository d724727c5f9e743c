/**
 * A task queue without workspaces: a project is found or created by its name, and one session in it has the
 * tasks.
 */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import { meansId } from './ids.js';
import type { Task } from './model.js';
import { namesOf } from './references.js';
import type { CreateOptions, WorkspacesService } from './service.js';

/** Marks the session for tasks of callers that opened no session. */
const queueMark = 'queue';
const defaultProject = 'default';

export class TaskQueue {
  readonly #workspaces: WorkspacesService;
  readonly #caller: Caller;

  constructor(workspaces: WorkspacesService, caller: Caller) {
    this.#workspaces = workspaces;
    this.#caller = caller;
  }

  /** The id of a project given as `project`, `workspace/project` or id; undefined if no project has the name. */
  async find(reference: string = defaultProject): Promise<string | undefined> {
    if (meansId('project', reference)) return (await this.#workspaces.getProject(this.#caller, reference)).id;
    const [workspaceName, projectName] = namesOf(reference);
    const workspace = await this.#workspaceNamed(workspaceName);
    return workspace === undefined ? undefined : this.#projectNamed(workspace, projectName);
  }

  /** As `find`, but creates a missing project. */
  async ensure(reference: string = defaultProject): Promise<string> {
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

  /** The project may be given by name; a new name makes the project. */
  async add(project: string | undefined, task: unknown, options: CreateOptions = {}): Promise<Task> {
    const session = await this.queueSession(await this.ensure(project));
    return this.#workspaces.createTask(this.#caller, session, task, options);
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

  #workspaceNamed(name: string): Promise<string | undefined> {
    return this.#workspaces.references.workspaceNamed(this.#caller, name);
  }

  #projectNamed(workspace: string, name: string): Promise<string | undefined> {
    return this.#workspaces.references.projectNamed(this.#caller, workspace, name);
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
