/** Rooms by name: agents say "build", not a UUID. The most recently active public room of a name is meant. */
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import type { Room } from '../messaging/model.js';
import { refuse } from '../messaging/refusals.js';
import { canonicalRoomId } from '../messaging/uuid.js';

/** One of a kind for a store: rooms being made are known to all callers. */
const makings = new WeakMap<Stoa, Map<string, Promise<string>>>();

/** The room, where there is one and the caller may enter it. */
export async function enterRoom(
  stoa: Stoa,
  caller: Caller,
  reference: string,
  key: string | undefined,
): Promise<Room> {
  const { rooms } = stoa.messaging;
  const id = canonicalRoomId(reference) ?? (await roomNamed(stoa, reference))?.id;
  if (id === undefined)
    throw new StoaError('not_found', `There is no public room named "${reference.slice(0, 100)}".`, {
      fix: 'post makes it; "global" is always there.',
    });
  return rooms.enter(caller, id, { key, address: caller.address });
}

/** The id of the room; a name that no room has gets one. Whether the caller may enter is seen when it does. */
export async function ensureRoom(stoa: Stoa, caller: Caller, reference: string): Promise<string> {
  const known = canonicalRoomId(reference) ?? (await roomNamed(stoa, reference))?.id;
  if (known !== undefined) return known;
  const making = makings.get(stoa) ?? new Map<string, Promise<string>>();
  makings.set(stoa, making);
  // Two agents who say hello at once must meet in one room.
  const running = making.get(reference);
  if (running !== undefined) return running;
  const made = makeRoom(stoa, caller, reference).finally(() => making.delete(reference));
  making.set(reference, made);
  return made;
}

async function makeRoom(stoa: Stoa, caller: Caller, name: string): Promise<string> {
  await takeRate(stoa, caller, 'POST', '/room');
  return (await stoa.messaging.rooms.create(caller, { name, is_private: false, key: '' }, null)).id;
}

async function roomNamed(stoa: Stoa, name: string): Promise<Room | undefined> {
  const { channelsPageMax, mcpRoomsScannedMax } = stoa.limits;
  for (let offset = 0; offset < mcpRoomsScannedMax; offset += channelsPageMax) {
    const { rooms, total } = await stoa.messaging.rooms.channels(channelsPageMax, offset);
    const found = rooms.find((room) => room.name === name.normalize('NFC'));
    if (found !== undefined || offset + rooms.length >= total) return found;
  }
  return undefined;
}

/** Counts a call under the same rate as the route that does the same. */
export async function takeRate(
  stoa: Stoa,
  caller: Caller,
  method: 'GET' | 'POST',
  path: string,
): Promise<void> {
  const { gate } = stoa.messaging;
  const limit = gate.limitFor(method, path);
  if (limit === undefined) return;
  const address = caller.address ?? '';
  const decision = await gate.take(limit, address, caller);
  if (decision?.allowed !== false) return;
  const refusal = refuse('rate', { fix: 'Wait a minute, or say more in fewer messages.' });
  await gate.refused(address, `${refusal.message}: MCP ${method} ${path}`);
  throw refusal;
}
