/** Pages with the position of the change feed at the time of reading, so that a watch can begin there. */
import type { Stoa } from '../../index.js';
import { type Answer, answer } from '../route.js';

/**
 * The position is taken before the read: the page has every change up to it, and later changes can be
 * followed.
 */
export async function positioned<Body>(stoa: Stoa, read: () => Promise<Body>): Promise<Answer<Body>> {
  const position = await stoa.changes.newest();
  const body = await read();
  // A reader who follows the feed from the position finds the changes of what the page shows there, and knows
  // them.
  await stoa.changes.newest();
  return answer(200, body, { 'stoa-position': position });
}
