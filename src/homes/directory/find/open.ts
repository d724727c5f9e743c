/** Connects the search index with the records that it finds. */
import type { Kernel } from '../kernel/kernel.js';
import { userKey } from '../../../identity/user-key.js';
import { namespaceKey } from '../datastore/rows.js';
import { readSettings } from '../datastore/settings.js';
import { documentSource } from '../datastore/verbs.js';
import { isSearchedRoom, messageSource } from '../messaging/messages/messages.js';
import type { RoomRows } from '../messaging/rooms/stored-rooms.js';
import { taskSource } from '../workspaces/tasks/rows.js';
import { DirectoryFind, type DirectoryFindOptions } from './find.js';

export function openDirectoryFind(
  kernel: Kernel,
  rooms: RoomRows,
  onError: DirectoryFindOptions['onError'],
): DirectoryFind {
  return new DirectoryFind({
    kernel,
    sources: { data: documentSource, tasks: taskSource, messages: messageSource(kernel.limits) },
    isIndexed: (scope) => readSettings(kernel.storeOf(userKey(scope.user)), namespaceKey(scope)).index,
    isRoomSeen: (roomId, user) => isSearchedRoom(rooms.get(roomId), user),
    onError,
  });
}
