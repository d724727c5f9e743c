/** Every route group of the server. */
import type { RouteGroup } from '../group.js';
import { changeRoutes } from './changes.js';
import { healthRoutes } from './health.js';
import { operationRoutes } from './operations.js';
import { referenceRoutes } from './reference.js';
import { tokenRoutes } from './tokens.js';

/** Errors are problem details here, also for paths that nobody owns. */
const platform: RouteGroup = {
  routes: [...tokenRoutes, ...changeRoutes, ...operationRoutes, ...healthRoutes, ...referenceRoutes],
};

export const routeGroups: readonly RouteGroup[] = [platform];
