/**
 * Finds rooms by name, because agents use names, not UUIDs. Of several public rooms the most recently active
 * is used.
 */
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import type { Room } from '../messaging/model.js';
import { refuse } from '../messaging/refusals.js';
import { canonicalRoomId } from '../messaging/identities/uuid.js';

/** One map for each store: all callers see the rooms that are being created. */
const makings = new WeakMap<Stoa, Map<string, Promise<string>>>();

/** The room, if it exists and the caller may enter it. */
export async function enterRoom(
  stoa: Stoa,
  caller: Caller,
  reference: string,
  key: string | undefined,
): Promise<Room> {
  const { rooms } = stoa.messaging;
  const id = canonicalRoomId(reference) ?? (await roomNamed(stoa, reference))?.id;
  if (id === undefined)
    throw new StoaError('not_found', `Unknown public room "${reference.slice(0, 100)}".`, {
      fix: 'Create it with post, or use "global", which always exists.',
    });
  return rooms.enter(caller, id, { key, address: caller.address });
}

/**
 * The id of the room. An unknown name creates a room. The caller's access is checked when the room is used.
 */
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

/** Counts a call against the rate limit of the equivalent route. */
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
