/** An empty project with an active session, for tasks. */
import { operatorCaller } from '../../../src/core/caller.js';
import type { Stoa } from '../../../src/index.js';

export async function projectOf(stoa: Stoa, name: string): Promise<{ project: string; session: string }> {
  const alice = operatorCaller('alice');
  const workspace = await stoa.workspaces.createWorkspace(alice, { name });
  const project = await stoa.workspaces.createProject(alice, workspace.id, { name });
  const session = await stoa.workspaces.createSession(alice, project.id, { status: 'active' });
  return { project: project.id, session: session.id };
}
