/** Rooms, messages, the inbox and identities under /v1, with the limits of messaging. */
import type { RouteGroup } from '../../group.js';
import { onRoomError } from './admission.js';
import { inboxRoutes } from './inbox.js';
import { messageRoutes } from './messages.js';
import { profileRoutes } from './profiles.js';
import { roomRoutes } from './rooms.js';

export const roomsGroup: RouteGroup = {
  routes: [...roomRoutes, ...messageRoutes, ...inboxRoutes, ...profileRoutes],
  onError: onRoomError,
};
