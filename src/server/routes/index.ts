/** Every route group of the server. */
import type { RouteGroup } from '../group.js';
import { agentSessionRoutes } from './agent-sessions.js';
import { agentRoutes } from './agents.js';
import { changeRoutes } from './changes.js';
import { commitRoutes } from './commit.js';
import { dataRoutes } from './data.js';
import { documentRoutes } from './documents.js';
import { doctorRoutes } from './doctor.js';
import { healthRoutes } from './health.js';
import { inspectRoutes } from './inspect.js';
import { blockRoutes } from './messaging-blocks.js';
import { identityLinkRoutes } from './messaging-identities.js';
import { messagingGroup } from './messaging.js';
import { mcpRoutes } from './mcp.js';
import { operationRoutes } from './operations.js';
import { referenceRoutes } from './reference.js';
import { tokenRoutes } from './tokens.js';
import { secretRoutes } from './secrets.js';
import { taskRoutes } from './tasks.js';
import { transferRoutes } from './transfer.js';
import { userRoutes } from './users.js';
import { projectRoutes } from './projects.js';
import { workSessionRoutes } from './work-sessions.js';
import { workspaceRoutes } from './workspaces.js';

/** Errors are problem details here, also for paths that nobody owns. */
const platform: RouteGroup = {
  routes: [
    ...dataRoutes,
    ...documentRoutes,
    ...agentRoutes,
    ...agentSessionRoutes,
    ...workspaceRoutes,
    ...projectRoutes,
    ...workSessionRoutes,
    ...taskRoutes,
    ...secretRoutes,
    ...userRoutes,
    ...tokenRoutes,
    ...commitRoutes,
    ...changeRoutes,
    ...mcpRoutes,
    ...operationRoutes,
    ...transferRoutes,
    ...inspectRoutes,
    ...doctorRoutes,
    ...blockRoutes,
    ...identityLinkRoutes,
    ...healthRoutes,
    ...referenceRoutes,
  ],
};

export const routeGroups: readonly RouteGroup[] = [platform, messagingGroup];
