import { expect, test } from 'vitest';
import { layoutOf, nodeHeight, nodeWidth } from '../../console/src/pages/work/graph-layout.js';
import { rowLayout } from '../../console/src/ui/row-layout.js';

test('rows of different heights are where a list of them one after the other has them', () => {
  const { height, topOf, indexAt } = rowLayout([40, 56, 56, 40], (each) => each);
  expect([0, 1, 2, 3].map((index) => topOf(index))).toEqual([0, 40, 96, 152]);
  expect(height).toBe(192);
  expect([0, 39, 40, 95, 96, 191, 5_000].map((top) => indexAt(top))).toEqual([0, 0, 1, 1, 2, 3, 3]);
});

test('rows of one height are found without a sum over all of them', () => {
  const { height, topOf, indexAt } = rowLayout(Array.from({ length: 1_000 }), 36);
  expect([height, topOf(999), indexAt(35_999), indexAt(99_999)]).toEqual([36_000, 35_964, 999, 999]);
});

test('an edge over several levels passes beside the tasks between its ends', () => {
  const { places, edges, width } = layoutOf({
    levels: [[{ id: 'a' }], [{ id: 'b' }], [{ id: 'c' }]],
    edges: [
      { from: 'a', to: 'b' },
      { from: 'b', to: 'c' },
      { from: 'a', to: 'c' },
    ],
  });
  const between = places.get('b') ?? { x: 0, y: 0 };
  // The path is straight where it passes a row.
  const straight = /([\d.]+) ([\d.]+)L\1 ([\d.]+)/.exec(edges[2] ?? '');
  const [passX, fromY, toY] = (straight ?? []).slice(1).map(Number);
  expect([fromY, toY]).toEqual([between.y, between.y + nodeHeight]);
  expect(passX! < between.x || passX! > between.x + nodeWidth).toBe(true);
  expect(passX).toBeLessThan(width);
});

test('tasks stand below the tasks that they depend on, so that few edges cross', () => {
  const { places } = layoutOf({
    levels: [
      [{ id: 'a' }, { id: 'b' }],
      [{ id: 'of-b' }, { id: 'of-a' }],
    ],
    edges: [
      { from: 'a', to: 'of-a' },
      { from: 'b', to: 'of-b' },
    ],
  });
  const x = (id: string): number => places.get(id)?.x ?? NaN;
  expect(x('a') < x('b')).toBe(x('of-a') < x('of-b'));
});
