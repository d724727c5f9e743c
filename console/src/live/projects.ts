/** Projects of all workspaces that can be seen, with the user that they belong to. */
import { useMemo } from 'preact/hooks';
import { useLoaded } from '../load.js';
import { useWorld } from './use-world.js';

export interface ListedProject {
  readonly id: string;
  readonly text: string;
  readonly user: string;
}

const projectsMax = 200;
const none: readonly ListedProject[] = [];

/** Nothing is read unless `isNeeded`. If the read fails, nothing is known. */
export function useProjects(isNeeded = true): readonly ListedProject[] {
  const { view } = useWorld();
  const { value } = useLoaded(
    async (signal): Promise<readonly ListedProject[]> => {
      if (!isNeeded) return none;
      const spaces = await view.stoa.workspaces.list({ limit: projectsMax, signal });
      const lists = await Promise.all(
        spaces.items.map(async ({ id, name, owner_id }) => {
          const { items } = await view.stoa.projects.list(id, { limit: projectsMax, signal });
          return items.map((project) => ({
            id: project.id,
            text: `${name} / ${project.name}`,
            user: owner_id,
          }));
        }),
      );
      return lists.flat();
    },
    [view.session.token, view.user, isNeeded],
  );
  return value ?? none;
}

/** The user of each project. Only the operator who looks at all users sees several with agents of the same name. */
export function useOwners(isNeeded: boolean): ReadonlyMap<string, string> {
  const projects = useProjects(isNeeded);
  return useMemo(() => new Map(projects.map(({ id, user }) => [id, user])), [projects]);
}
