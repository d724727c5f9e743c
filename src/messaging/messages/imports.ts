/** The notice to live readers about an import. */
import type { Change } from '../../core/change.js';
import type { Notice } from '../port.js';

/** Undefined for changes that did not import a message. */
export function importNotice({
  kind,
  facts,
  recipient,
}: Change): Extract<Notice, { kind: 'imported' }> | undefined {
  if (kind === 'message.imported') return { topic: 'room', id: String(facts?.['room']), kind: 'imported' };
  return kind === 'direct.imported' && recipient !== undefined
    ? { topic: 'inbox', id: recipient, kind: 'imported' }
    : undefined;
}
