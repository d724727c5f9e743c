/** How each family of a data directory can be damaged, and what the doctor says about it. */
import { dataFamilies } from '../../../../src/homes/directory/datastore/rows.js';
import { findFamilies } from '../../../../src/homes/directory/find/rows.js';
import { vectorFamilies } from '../../../../src/homes/directory/find/vectors/rows.js';
import { unexaminedFamilies } from '../../../../src/homes/directory/doctor/doctor.js';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { kernelFamilies as kernel } from '../../../../src/homes/directory/kernel/families.js';
import { nowMs } from '../populated.js';

export const none = Buffer.alloc(0);
export const junk = Buffer.from('{"junk"');
export const stranger = Buffer.alloc(80, 9);
export const text = (value: string) => Buffer.from(value);
const ofAda = (...parts: string[]) => Buffer.concat([userKey('ada'), text(parts.join('\0'))]);
function timeBytes(timeMs: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntBE(timeMs, 0, 6);
  return bytes;
}

export interface Rule {
  /** Every row that is lost comes back: byte for byte, or in another form that means the same. */
  lost?: 'same' | 'otherwise';
  /** A row with wrong bytes is written again, or deleted if nothing defines its content. */
  spoiled?: 'same' | 'otherwise' | 'removed';
  /** Surplus rows, which the doctor deletes. */
  extra?: readonly (readonly [Buffer, Buffer])[];
}

/** What follows from records, and how it can be damaged. */
export const derived: Readonly<Record<string, Rule>> = {
  'identity/tokens_by_user': { lost: 'same', extra: [[stranger.subarray(0, 42), none]] },
  'identity/token_uses': { spoiled: 'removed', extra: [[stranger.subarray(0, 10), text('1')]] },
  'data/access': {
    spoiled: 'removed',
    extra: [[ofAda('notes', 'gone'), text('{"count":1,"agent":null,"at":null}')]],
  },
  'data/namespaces': { lost: 'same', spoiled: 'same', extra: [[ofAda('nowhere'), Buffer.alloc(24)]] },
  'data/namespace_agents': {
    lost: 'same',
    extra: [
      [Buffer.concat([stranger.subarray(0, 32), text('x\0y')]), none],
      [stranger.subarray(0, 40), none],
    ],
  },
  'data/usage': { lost: 'same', spoiled: 'same' },
  'registry/agents_by_status': {
    lost: 'same',
    extra: [
      [stranger.subarray(0, 65), none],
      [stranger.subarray(0, 3), none],
    ],
  },
  'registry/agents_by_name': { lost: 'same', extra: [[stranger.subarray(0, 70), none]] },
  'registry/agents_by_label': { lost: 'same', extra: [[stranger.subarray(0, 72), none]] },
  'registry/agents_by_id': {
    lost: 'same',
    spoiled: 'same',
    extra: [[stranger.subarray(0, 32), userKey('ada')]],
  },
  'registry/sessions_by_agent': { lost: 'same', extra: [[stranger.subarray(0, 48), none]] },
  'registry/sessions_by_status': { lost: 'same', extra: [[stranger.subarray(0, 49), none]] },
  'registry/counts': {
    lost: 'same',
    spoiled: 'same',
    extra: [[Buffer.concat([Buffer.of(0xff), stranger.subarray(0, 32)]), Buffer.alloc(8)]],
  },
  'locks/locks_by_holder': { lost: 'same', extra: [[stranger, none]] },
  'locks/counters': { lost: 'same', spoiled: 'same' },
  'registry/user_names': {
    lost: 'same',
    spoiled: 'same',
    extra: [[stranger.subarray(0, 32), text('mallory')]],
  },
  'registry/identity_links': {
    lost: 'same',
    extra: [[Buffer.concat([Buffer.of(1), stranger.subarray(0, 40)]), none]],
  },
  'workspaces/indexes': {
    lost: 'same',
    spoiled: 'same',
    extra: [[text('idx:task:session:sess_x:task_x'), text('task_x')]],
  },
  'workspaces/metadata': {
    spoiled: 'same',
    extra: [
      [text('meta:open_tasks:session:sess_x'), text('3')],
      [text('meta:work:unknown:x'), text('{}')],
      [text('meta:whatever'), none],
    ],
  },
  'messaging/identities_by_key': {
    lost: 'same',
    spoiled: 'same',
    extra: [[stranger.subarray(0, 32), stranger.subarray(0, 16)]],
  },
  'messaging/identity_keys': { lost: 'same', extra: [[stranger.subarray(0, 22), text('{"publicKey":""}')]] },
  'messaging/room_names': { lost: 'same', extra: [[stranger.subarray(0, 70), none]] },
  'messaging/rooms_by_activity': { lost: 'same', extra: [[stranger.subarray(0, 22), none]] },
  'messaging/totals': { lost: 'otherwise', spoiled: 'otherwise', extra: [[text('bottom'), text('{}')]] },
  'messaging/message_places': {
    lost: 'same',
    spoiled: 'same',
    extra: [
      [stranger.subarray(0, 32), timeBytes(nowMs)],
      [stranger.subarray(0, 5), none],
    ],
  },
  'messaging/threads': {
    lost: 'same',
    extra: [
      [stranger.subarray(0, 28), none],
      [stranger.subarray(0, 5), none],
    ],
  },
  'messaging/inbox_clocks': {
    lost: 'same',
    spoiled: 'same',
    extra: [[stranger.subarray(0, 16), timeBytes(nowMs)]],
  },
  'messaging/pending': { lost: 'same', extra: [[stranger.subarray(0, 22), none]] },
  'messaging/nonces': {
    extra: [
      [stranger.subarray(0, 8), none],
      [Buffer.alloc(6, 0xff), junk],
    ],
  },
  'messaging/bytes': {
    spoiled: 'removed',
    extra: [[stranger.subarray(0, 16), text('{"fromMs":1,"bytes":1}')]],
  },
  'messaging/rate_windows': { extra: [[text('rates'), junk]] },
  'kernel/idempotency': { spoiled: 'removed' },
  'kernel/idempotency_bytes': { spoiled: 'same', extra: [[stranger.subarray(0, 32), Buffer.alloc(8, 1)]] },
  'kernel/timers': {
    lost: 'same',
    extra: [
      [stranger.subarray(0, 8), none],
      [Buffer.concat([Buffer.alloc(8), text('unknown\0x')]), none],
    ],
  },
};

/**
 * Rows that nothing else repeats: reported if unreadable, and never changed. Rows without an owner are
 * deleted.
 */
export const records: Readonly<Record<string, Rule>> = {
  'identity/tokens': {},
  'data/agent_data_store': {},
  'data/values': {
    extra: [
      [ofAda('notes', 'gone'), text('1')],
      [ofAda('notes', 'a'), text('1')],
    ],
  },
  'registry/agents': {},
  'registry/agent_meta': { extra: [[stranger.subarray(0, 64), text('{"user":"x"}')]] },
  'registry/sessions': {},
  'registry/users': {},
  'registry/user_settings': { extra: [[stranger.subarray(0, 32), text('{"agentsMax":1}')]] },
  'registry/leases': { extra: [[stranger.subarray(0, 64), text('{"holder":null}')]] },
  'workspaces/workspaces': {},
  'workspaces/projects': {},
  'workspaces/sessions': {},
  'workspaces/tasks': {},
  'workspaces/leases': { extra: [[text('lease:task_x'), text('{}')]] },
  'locks/locks': {},
  'messaging/identities': {},
  'messaging/kept_identities': {
    extra: [[stranger.subarray(0, 32), text('{"id":"09090909-0909-0909-0909-090909090909"}')]],
  },
  'messaging/rooms': {},
  'messaging/room_keys': { extra: [[stranger.subarray(0, 16), text('x')]] },
  'messaging/messages': {},
  'messaging/inboxes': {},
  'messaging/blocks': {},
};

/** Only with several shards; separate tests cover them. */
export const elsewhere: readonly string[] = [
  kernel.directory,
  kernel.intents,
  // Written in the background.
  ...Object.values(findFamilies),
  ...Object.values(vectorFamilies),
  // Only of namespaces that have other settings than the defaults.
  dataFamilies.settings,
];
export const everyFamily = [...Object.values(kernel), ...directoryFamilies];
export const examined = everyFamily.filter((family) => !(family in unexaminedFamilies));
