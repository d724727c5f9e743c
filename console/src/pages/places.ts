/** Where things are shown. */
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { href } from '../router.js';

/** Where the changed object is shown. */
export function placeOf({ kind, id, facts }: ChangeItem): string | undefined {
  if (kind.startsWith('agent.')) return href(['fleet', id]);
  if (kind.startsWith('task.')) return href(['work', id]);
  const { namespace, key, room } = facts ?? {};
  if (typeof namespace === 'string')
    return href(['data', namespace, ...(typeof key === 'string' ? [key] : [])]);
  if (typeof room !== 'string') return undefined;
  // The id of a message is its room and its own id.
  const message = kind === 'message.posted' ? id.split('/')[1] : undefined;
  return href(['rooms', room, ...(message === undefined ? [] : [message])]);
}
