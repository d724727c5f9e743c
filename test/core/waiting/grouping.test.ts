/** Calls that are joined into groups. */
import { expect, it } from 'vitest';
import { Grouping } from '../../../src/core/waiting/grouping.js';
import { nextTurn } from '../../../src/core/waiting/yielding.js';

it('callers that call again when they are answered join those that waited meanwhile', async () => {
  const groups: string[] = [];
  let late: Promise<string> | undefined;
  const grouping = new Grouping<string, string>({
    run: async (items) => {
      groups.push(items.join(''));
      late ??= grouping.add('e');
      await nextTurn();
      return items;
    },
    itemsMax: 8,
    groupsMax: 1,
  });
  const callTwice = async (name: string): Promise<void> => {
    await grouping.add(name);
    // As through the parts of a server between the group and the caller.
    for (let part = 0; part < 10; part += 1) await Promise.resolve();
    await grouping.add(name);
  };
  await Promise.all([...'abcd'].map(callTwice));
  await late;
  expect(groups).toEqual(['abcd', 'eabcd']);
});
