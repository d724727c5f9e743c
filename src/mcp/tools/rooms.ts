/** Rooms of the message tools, by name or id, and the rate limits of the equivalent routes. */
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';
import type { Room } from '../../messaging/model.js';
import { refuse } from '../../messaging/refusals.js';

/** The room, if it exists for the caller and its key fits. */
export function enterRoom(stoa: Stoa, caller: Caller, room: string, key: string | undefined): Promise<Room> {
  return stoa.messaging.rooms.enter(caller, { room, byName: true }, { key, address: caller.address });
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
