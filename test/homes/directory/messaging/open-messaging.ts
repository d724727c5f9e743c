/** Messaging and the search index on a kernel, without the rest of a home. */
import { openDirectoryFind } from '../../../../src/homes/directory/find/open.js';
import { type DirectoryFind } from '../../../../src/homes/directory/find/find.js';
import { type Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { openDirectoryMessaging } from '../../../../src/homes/directory/messaging/open.js';
import type { DirectoryMessaging } from '../../../../src/homes/directory/messaging/messaging.js';
import { RoomRows } from '../../../../src/homes/directory/messaging/rooms/stored-rooms.js';
import { DirectoryRegistry } from '../../../../src/homes/directory/registry/registry.js';

export async function openMessaging(
  kernel: Kernel,
  onError: (error: unknown) => void = () => undefined,
): Promise<{ messaging: DirectoryMessaging; find: DirectoryFind }> {
  const rooms = new RoomRows(kernel.root);
  const find = openDirectoryFind(kernel, rooms, onError);
  const agents = new DirectoryRegistry(kernel);
  const index = find.messages;
  return { messaging: await openDirectoryMessaging({ kernel, agents, rooms, index, onError }), find };
}
