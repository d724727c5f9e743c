/** The rows of messaging as readable JSON, for `stoa inspect`. */
import { ulidOfBytes } from '../../../messaging/messages/ulid.js';
import { isoTime } from '../../../core/text/iso-time.js';
import { uuidOfBytes } from '../../../messaging/identities/uuid.js';
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
import { isForgottenKey, spansIn } from './guards/forgotten-times.js';
import { nonceBucketOf, nonceOfKey } from './guards/nonces.js';
import {
  decode,
  decodeDirect,
  decodeMessage,
  families,
  roomOfActivityKey,
  roomOfNameKey,
  timeOfId,
  timeOfKey,
} from './rows.js';

const idBytes = 16;

/** The hash of the owner at the beginning of a name; zeros for a public room. */
const ownerBytes = 32;

export const messagingRows: RowDecoders = {
  [families.agents]: json,
  [families.agentsByKey]: (key, value) => ({
    public_key: key.toString('base64'),
    agent_id: uuidOfBytes(value),
  }),
  [families.agentKeys]: (key, value) => ({ agent_id: uuidOfBytes(key), ...json(key, value) }),
  [families.keptAgents]: (key, value) => ({ owner: key.toString('hex'), ...json(key, value) }),
  [families.rooms]: json,
  [families.roomKeys]: (key, value) => ({
    room_id: uuidOfBytes(key),
    key_hash: `${value.length} bytes, not shown`,
  }),
  [families.roomsByActivity]: (key) => ({
    last_active_at: isoTime(timeOfId(key)),
    room_id: uuidOfBytes(roomOfActivityKey(key)),
  }),
  [families.roomNames]: (key) => ({
    owner_hash: key.toString('hex', 0, ownerBytes),
    name: key.toString('utf8', ownerBytes, key.length - idBytes - 1),
    room_id: uuidOfBytes(roomOfNameKey(key)),
  }),
  [families.totals]: (key, value) => ({ row: key.toString(), ...json(key, value) }),
  [families.messages]: (key, value) => decodeMessage(key, value),
  [families.places]: (key, value) => ({
    room_or_agent_id: uuidOfBytes(key),
    message_id: ulidOfBytes(key.subarray(idBytes)),
    message_at: isoTime(timeOfKey(value)),
  }),
  [families.threads]: (key) => ({
    room_id: uuidOfBytes(key),
    first_message_at: isoTime(timeOfId(key.subarray(idBytes))),
    message_at: isoTime(timeOfKey(key)),
  }),
  [families.inboxes]: (key, value) => decodeDirect(key, value),
  [families.inboxClocks]: (key, value) => ({
    agent_id: uuidOfBytes(key),
    newest_at: isoTime(timeOfKey(value)),
  }),
  [families.pending]: (key) => ({ agent_id: uuidOfBytes(key), message_at: isoTime(timeOfKey(key)) }),
  [families.nonces]: (key, value) =>
    isForgottenKey(key)
      ? { forgotten: spansIn(value)?.map((span) => span.map((timeMs) => isoTime(timeMs))) ?? null }
      : { bucket: nonceBucketOf(key), ...nonceOfKey(key) },
  [families.bytes]: (key, value) => ({ agent_id: uuidOfBytes(key), ...json(key, value) }),
  [families.rateWindows]: (key, value) => ({ kind: key.toString(), windows: decode<unknown[]>(value) }),
  [families.blocks]: json,
};

/** A row that is stored as JSON. */
function json(_key: Buffer, value: Buffer): object {
  return decode<object>(value);
}
