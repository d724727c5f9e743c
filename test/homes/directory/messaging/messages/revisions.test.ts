import { expect, it } from 'vitest';
import { RoomRevisions } from '../../../../../src/homes/directory/messaging/messages/revisions.js';

it('the revision of a room changes only with that room, or when revisions are evicted', () => {
  const revisions = new RoomRevisions(2);
  const now = () => ['a', 'b', 'c', 'd'].map((room) => revisions.of(room));
  const seen = now();
  revisions.change('a');
  revisions.change('b');
  revisions.change('b');
  const known = now();
  expect(known.map((revision, index) => revision === seen[index])).toEqual([false, false, true, true]);
  revisions.change('c');
  const forgotten = now();
  expect(forgotten.map((revision, index) => revision === known[index])).toEqual([false, true, false, false]);
  expect(forgotten.some((revision, index) => revision === seen[index])).toBe(false);
});
