/** What servers on one Redis tell each other: words with spaces between, made by scripts and read here. */
import type { Change } from '../../kernel/transaction.js';
import type { Notice } from '../../messaging/port.js';
import { ulidTimeMs } from '../../messaging/ulid.js';

export const newsChannel = 'stoa:messaging';

export interface News {
  notice: Notice;
  change: Change;
}

/** Undefined for what some other program wrote on the channel. */
export function parseNews(text: string): News | undefined {
  const [, kind, id, ...rest] = text.split(' ');
  if (id === undefined) return undefined;
  if (kind === 'room' || kind === 'gone') {
    const [privacy, from, messageId] = rest;
    if (from === undefined || messageId === undefined) return undefined;
    const audience = privacy === 'public' ? ('public' as const) : ('operator' as const);
    const shared = { domain: 'messaging' as const, id: `${id}/${messageId}`, user: null, version: null, audience };
    if (kind === 'gone') return { notice: { topic: 'room', id, kind: 'deleted', messageId }, change: { ...shared, kind: 'message.deleted', facts: { room: id, message: messageId } } };
    return { notice: { topic: 'room', id, kind: 'new' }, change: { ...shared, kind: 'message.posted', facts: { room: id, from, ts: ulidTimeMs(messageId) ?? 0 } } };
  }
  const [messageId] = rest;
  if (kind !== 'inbox' || messageId === undefined) return undefined;
  return { notice: { topic: 'inbox', id, kind: 'new' }, change: { domain: 'messaging', kind: 'direct.received', id: messageId, user: null, version: null, audience: 'recipient', recipient: id } };
}
