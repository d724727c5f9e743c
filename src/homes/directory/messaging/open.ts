/** Opens messaging in the data directory. */
import { globalRoomAlias, globalRoomId, uuidBytes } from '../../../messaging/identities/uuid.js';
import type { MessageIndex } from '../find/message-index.js';
import type { Kernel } from '../kernel/kernel.js';
import type { KnownAgents } from './identities/kept-identities.js';
import { DirectoryMessaging } from './messaging.js';
import type { RoomRows } from './rooms/stored-rooms.js';
import { createRoom, readRoom } from './rooms/rooms.js';

export interface DirectoryMessagingOptions {
  readonly kernel: Kernel;
  readonly agents: KnownAgents;
  readonly rooms: RoomRows;
  /** The messages in the search index. */
  readonly index: MessageIndex;
  /** Faults that no caller waits for. */
  readonly onError?: (error: unknown, about: string) => void;
}

/** Opens messaging on a kernel; the global room exists from the start. */
export async function openDirectoryMessaging(
  options: DirectoryMessagingOptions,
): Promise<DirectoryMessaging> {
  const { kernel } = options;
  await kernel.root.transact((tx) => {
    if (readRoom(tx, uuidBytes(globalRoomId)) !== undefined) return;
    const room = { name: globalRoomAlias, isPrivate: false, keyHash: null, createdBy: null };
    createRoom(tx, kernel.limits, { ...room, owner: null, retentionSeconds: null }, globalRoomId);
  });
  const messaging = new DirectoryMessaging(options);
  await messaging.loadRates();
  return messaging;
}
