/** Every route group of the server. */
import type { RouteGroup } from '../group.js';
import { consoleFileRoutes } from './console/files.js';
import { sessionRoutes } from './console/session.js';
import { dataRoutes } from './datastore.js';
import { feedRoutes } from './feed.js';
import { findRoutes } from './find.js';
import { healthRoutes } from './health.js';
import { lockRoutes } from './locks.js';
import { mcpRoutes } from './mcp.js';
import { messagingGroup } from './messaging/index.js';
import { roomsGroup } from './rooms/index.js';
import { referenceRoutes } from './reference.js';
import { registryRoutes } from './registry.js';
import { serverRoutes } from './operations.js';
import { workspacesRoutes } from './workspaces.js';

/** Errors are problem details, also for unknown paths outside of all groups. */
const platform: RouteGroup = {
  routes: [
    ...dataRoutes,
    ...registryRoutes,
    ...workspacesRoutes,
    ...findRoutes,
    ...lockRoutes,
    ...feedRoutes,
    ...serverRoutes,
    ...mcpRoutes,
    ...healthRoutes,
    ...referenceRoutes,
    ...sessionRoutes,
    ...consoleFileRoutes,
  ],
};

export const routeGroups: readonly RouteGroup[] = [platform, roomsGroup, messagingGroup];
