/** Watching a namespace in the library: with changes in the commit, and announced after it. */
import { kernelOf } from '../kernel-of.js';
import { expect, test } from 'vitest';
import type { DocumentChange } from '../../src/datastore/watch.js';
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';

test.each([
  ['a directory', undefined],
  ['a backend that announces after the write', 'memory://'],
])(
  'a watch on %s tells what happens to its keys, in order, and goes on from a position',
  async (_name, datastore) => {
    const stoa = await openStoa({
      data: 'unused',
      engine: 'memory',
      ...(datastore !== undefined && { datastore }),
    });
    const notes = stoa.data.open(operatorCaller('ada', 'writer'), 'notes');
    const stop = new AbortController();
    const seen: DocumentChange[] = [];
    const start = kernelOf(stoa).feed.newest();
    const watching = (async () => {
      for await (const change of notes.watch({ prefix: 'a/', since: start, signal: stop.signal })) {
        seen.push(change);
        if (change.kind === 'cleared') stop.abort();
      }
    })();

    await notes.set('a/1', 'one');
    await notes.set('b/1', 'elsewhere');
    await notes.useNamespace('other').set('a/1', 'another namespace');
    await stoa.data.set(operatorCaller('bob'), 'notes', 'a/1', 'another user');
    await notes.increment('a/count');
    await notes.set('a/1', 'two');
    await notes.get('a/1');
    await notes.delete('a/1');
    await notes.clear();
    await watching;

    const told = seen.map(({ kind, key, version }) => [kind, key, version]);
    expect(told).toEqual([
      ['set', 'a/1', 1],
      ['set', 'a/count', 1],
      ['set', 'a/1', 2],
      ['deleted', 'a/1', null],
      ['cleared', null, null],
    ]);

    const later = new AbortController();
    for await (const change of notes.watch({ since: seen[2]?.position, signal: later.signal })) {
      expect([change.kind, change.key]).toEqual(['deleted', 'a/1']);
      break;
    }
    later.abort();
    await stoa.close();
  },
);
