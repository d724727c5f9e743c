/** Workspaces and projects by name: `site` or `site/api`. A name alone is a project of the workspace `default`. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { didYouMean } from '../core/text/nearest.js';
import { validate } from '../core/validation/validate.js';
import { checkId, meansId } from './ids.js';
import { checkListBounds } from './bounds.js';
import type { Listed, NamedListRequest, WorkspacesPort } from './port.js';
import { name as nameSchema } from './schemas.js';

/** The workspace of projects that are given without one. */
const defaultWorkspace = 'default';
/** So many names are compared with an unknown one. */
const namesComparedMax = 100;
const live = { deleted: false, after: null };

type Read = (request: NamedListRequest) => Promise<Listed<{ id: string; name: string }>>;

export class References {
  readonly #port: Pick<WorkspacesPort, 'listWorkspaces' | 'listProjects'>;
  readonly #limits: Limits;

  constructor(port: Pick<WorkspacesPort, 'listWorkspaces' | 'listProjects'>, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** An id is not looked up. An unknown name is refused, with a similar one. */
  async workspace(caller: Caller, reference: string): Promise<string> {
    if (meansId('workspace', reference)) return checkId('workspace', reference);
    const found = await this.workspaceNamed(caller, reference);
    if (found !== undefined) return found;
    throw await unknown('workspace', reference, '', this.#workspaces(caller));
  }

  /** As `workspace`; for `project` and `workspace/project`. */
  async project(caller: Caller, reference: string): Promise<string> {
    if (meansId('project', reference)) return checkId('project', reference);
    const [workspaceName, projectName] = namesOf(reference);
    const workspace = await this.workspaceNamed(caller, workspaceName);
    if (workspace === undefined) {
      // A name alone means a project of the default workspace, which exists from its first project.
      if (!reference.includes('/')) throw await unknown('project', projectName, '', noNames);
      throw await unknown('workspace', workspaceName, '', this.#workspaces(caller));
    }
    const found = await this.projectNamed(caller, workspace, projectName);
    if (found !== undefined) return found;
    const prefix = reference.includes('/') ? `${workspaceName}/` : '';
    throw await unknown('project', projectName, prefix, this.#projects(caller, workspace));
  }

  workspaceNamed(caller: Caller, name: string): Promise<string | undefined> {
    return this.#idOf(this.#workspaces(caller), name);
  }

  projectNamed(caller: Caller, workspaceId: string, name: string): Promise<string | undefined> {
    return this.#idOf(this.#projects(caller, workspaceId), name);
  }

  async #idOf(read: Read, given: string): Promise<string | undefined> {
    const name = validate(nameSchema, given).normalize('NFC');
    checkListBounds({ name }, this.#limits);
    return (await read({ ...live, name, limit: 1 })).items[0]?.id;
  }

  #workspaces({ user }: Caller): Read {
    return (request) => this.#port.listWorkspaces(user, request);
  }

  #projects({ user }: Caller, workspaceId: string): Read {
    return (request) => this.#port.listProjects(user, workspaceId, request);
  }
}

/** The names in `workspace/project`, or in `project` alone. */
export function namesOf(reference: string): [workspace: string, project: string] {
  const [first = '', second, ...rest] = reference.split('/');
  if (first === '' || second === '' || rest.length > 0)
    throw new StoaError('invalid_request', `"${reference.slice(0, 100)}" is not a project name or id.`, {
      fix: 'Use "project", "workspace/project" or an id that begins with proj_.',
    });
  return second === undefined ? [defaultWorkspace, first] : [first, second];
}

const noNames: Read = () => Promise.resolve({ items: [], next: null });

async function unknown(
  entity: 'workspace' | 'project',
  name: string,
  prefix: string,
  read: Read,
): Promise<StoaError> {
  const { items } = await read({ ...live, limit: namesComparedMax });
  const given = (prefix + name).slice(0, 200);
  return new StoaError(
    'not_found',
    `Unknown ${entity} "${given}".${didYouMean(
      given,
      items.map((item) => prefix + item.name),
    )}`,
    {
      fix:
        entity === 'workspace'
          ? 'Use the name or the id of a workspace of this user ("stoa workspaces ls").'
          : 'Use "project", "workspace/project" or the id of a project ("stoa projects ls WORKSPACE").',
    },
  );
}
