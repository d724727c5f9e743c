/** The messaging group: AICQ's routes on the root, with its errors and limits. */
import type { RouteGroup } from '../../group.js';
import { aicqHealthRoutes } from '../health.js';
import { directRoutes } from './direct.js';
import { beforeMessaging, messagingErrorSchema, writeMessagingError } from './gate.js';
import { identityRoutes } from './identities.js';
import { pageRoutes } from './pages.js';
import { roomRoutes } from './rooms.js';

const ownPaths =
  /^\/(?:$|(?:aicq|api|docs|register|who|channels|room|dm|find|stats|stream|page|health)(?:\/|$))/;

export const messagingGroup: RouteGroup = {
  routes: [...identityRoutes, ...roomRoutes, ...directRoutes, ...pageRoutes, ...aicqHealthRoutes],
  owns: (path) => ownPaths.test(path),
  writeError: writeMessagingError,
  errorSchema: messagingErrorSchema,
  onRequest: beforeMessaging,
};
