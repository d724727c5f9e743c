import { expect, it } from 'vitest';
import { Revisions } from '../../../../../src/homes/directory/messaging/messages/revisions.js';
import { families, timedKey } from '../../../../../src/homes/directory/messaging/rows.js';
import { uuidBytes } from '../../../../../src/messaging/identities/uuid.js';
import { directoryFamilies } from '../../../../../src/homes/directory/families.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

const [a, b, c] = ['a', 'b', 'c'].map((digit) => `${digit.repeat(8)}-0000-4000-8000-000000000000`) as [
  string,
  string,
  string,
];

it('a revision changes only with its room or inbox, or when revisions are evicted', async () => {
  const kernel = await openKernel({
    dataDir: '',
    engine: 'memory',
    families: directoryFamilies,
    limits: limitsWith({}),
  });
  const revisions = new Revisions(kernel.root, 2);
  const topics = [
    { kind: 'room', id: a },
    { kind: 'inbox', id: a },
    { kind: 'inbox', id: b },
    { kind: 'room', id: c },
  ] as const;
  const now = () => topics.map((topic) => revisions.of(topic));
  const write = (family: string, id: string) =>
    kernel.root.transact((tx) => tx.put(family, timedKey(uuidBytes(id), 1), Buffer.from('{}')));
  const seen = now();
  await write(families.messages, a);
  await write(families.inboxes, b);
  await write(families.inboxes, b);
  await write(families.inboxClocks, a);
  const known = now();
  expect(known.map((revision, index) => revision === seen[index])).toEqual([false, true, false, true]);
  await write(families.rooms, c);
  const forgotten = now();
  expect(forgotten.map((revision, index) => revision === known[index])).toEqual([false, false, true, false]);
  expect(forgotten.some((revision, index) => revision === seen[index])).toBe(false);
  await kernel.close();
});
