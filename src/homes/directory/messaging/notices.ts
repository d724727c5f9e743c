/** The notices for live readers about a group of commits. */
import type { Commit } from '../../../feed/port.js';
import { importNotice } from '../../../messaging/messages/imports.js';
import type { Notice } from '../../../messaging/port.js';

/** One notice for each room, inbox, deletion and import. */
export function noticesOf(commits: readonly Commit[]): Iterable<Notice> {
  const fresh = new Map<string, Notice>();
  for (const { changes } of commits) {
    for (const change of changes) {
      const { domain, kind, recipient, facts } = change;
      if (domain !== 'messaging') continue;
      const imported = importNotice(change);
      if (imported !== undefined) fresh.set(`imported ${imported.id}`, imported);
      const room = String(facts?.['room']);
      if (kind === 'message.posted') fresh.set(`room ${room}`, { topic: 'room', id: room, kind: 'new' });
      if (kind === 'message.deleted')
        fresh.set(`gone ${String(facts?.['message'])}`, {
          topic: 'room',
          id: room,
          kind: 'deleted',
          messageId: String(facts?.['message']),
        });
      if (kind === 'direct.received' && recipient !== undefined)
        fresh.set(`inbox ${recipient}`, { topic: 'inbox', id: recipient, kind: 'new' });
      if (kind === 'room.deleted')
        fresh.set(`removed ${change.id}`, { topic: 'room', id: change.id, kind: 'removed' });
    }
  }
  return fresh.values();
}
