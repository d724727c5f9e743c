import { expect, test } from 'vitest';
import { ServerEvents } from '../../../src/client/transport/server-events.js';

const text =
  'id: 7\nevent: set\ndata: {"value":"caf\u00e9\u2028: \u{1f30a}"}\n\n: idle\n\ndata: first\ndata:second\n\nevent: bare\n\n';

test.each([1, 2, 3, 7, 1000])(
  'events are the same in pieces of %i bytes, whatever characters they hold',
  (size) => {
    const bytes = new TextEncoder().encode(text);
    const events = new ServerEvents();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...events.take(bytes.subarray(at, at + size)));
    expect(found).toEqual([
      { id: '7', event: 'set', data: '{"value":"caf\u00e9\u2028: \u{1f30a}"}' },
      // Lines of data are one value; comments, and events without any, are passed over.
      { id: undefined, event: 'message', data: 'first\nsecond' },
    ]);
  },
);
