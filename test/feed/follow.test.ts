/** Many readers of the change feed with different filters: each gets exactly the matching changes. */
import * as fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { type ChangesQuery, ChangesService } from '../../src/feed/service.js';
import { type Caller, operatorCaller } from '../../src/core/caller.js';
import { ChangeFeed } from '../../src/homes/directory/kernel/feed/changes.js';
import type { Change } from '../../src/core/change.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { openStore, removeDirectories } from '../homes/directory/kernel/open-store.js';

afterAll(removeDirectories);

const users = ['ann', 'bob'];
const namespaces = ['n', 'n\nann', ''];
const keys = ['', 'a', 'ab', 'abc', 'b', 'ab\u{1F600}', '__proto__'];
const ids = ['one', 'two', '__proto__'];

const documentChange = fc
  .record({
    user: fc.constantFrom(...users),
    namespace: fc.constantFrom(...namespaces),
    key: fc.option(fc.constantFrom(...keys)),
  })
  .map(({ user, namespace, key }): Change => ({
    domain: 'data',
    kind: key === null ? 'namespace.cleared' : 'document.set',
    id: key ?? namespace,
    user,
    version: 1,
    facts: { namespace, ...(key !== null && { key }) },
  }));
const otherChange = fc
  .record({
    user: fc.option(fc.constantFrom(...users)),
    id: fc.constantFrom(...ids),
    audience: fc.constantFrom('owner', 'public', 'operator'),
  })
  .map(({ user, id, audience }): Change => ({
    domain: 'workspaces',
    kind: 'task.created',
    id,
    user,
    version: 1,
    audience: audience as Change['audience'] & string,
    facts: { namespace: 'n', key: 'a', project: 'p' },
  }));

const caller = fc.constantFrom(operatorCaller(), operatorCaller('ann'), {
  ...operatorCaller('bob'),
  scopes: { write: true, namespaces: ['n'] },
} satisfies Caller);
const query: fc.Arbitrary<ChangesQuery> = fc.oneof(
  fc.record({
    namespace: fc.constantFrom(...namespaces),
    prefix: fc.option(fc.constantFrom(...keys), { nil: undefined }),
  }),
  fc.record({ id: fc.constantFrom(...ids) }),
  fc.record({ project: fc.constant('p') }),
  fc.record({ topics: fc.constantFrom(['data'], ['task'], ['workspaces', 'namespace.cleared']) }),
  fc.constant({}),
);

/** Either a commit, on one of the shards, or a pause in which readers catch up. */
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      shard: fc.nat(1),
      changes: fc.array(fc.oneof(documentChange, otherChange), { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant(null) },
);

/** The number that each change has in place of a version. */
type Told = Pick<Change, 'version'>;

test('each reader gets every matching change once, in the order of its shard, with positions to resume from', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ caller, query }), { minLength: 1, maxLength: 8 }),
      fc.array(step, { maxLength: 25 }),
      async (readers, steps) => {
        const stores = [(await openStore()).store, (await openStore()).store];
        const service = new ChangesService(
          new ChangeFeed(stores, '0123456789ab'),
          limitsWith({ streamHeartbeatSeconds: 3_600 }),
        );
        const start = await service.newest();
        const stop = new AbortController();
        const followers = readers.map(({ caller: who, query: what }) => {
          const got = { numbers: [] as number[], position: start };
          const follow = async (): Promise<void> => {
            for await (const page of await service.follow(who, what, stop.signal)) {
              got.numbers.push(...page.commits.flatMap(({ changes }) => numbersOf(changes)));
              got.position = page.position;
            }
          };
          return {
            got,
            ended: follow(),
            after: async (since: string) =>
              numbersOf((await service.read(who, { ...what, since, limit: 1_000 })).items),
          };
        });
        let number = 0;
        const shardOf = new Map<number, number>();
        const commits: Promise<unknown>[] = [];
        for (const each of steps) {
          if (each === null) {
            await new Promise((resolve) => setImmediate(resolve));
            continue;
          }
          const numbered = each.changes.map((change) => ({ ...change, version: (number += 1) }));
          for (const { version } of numbered) shardOf.set(version, each.shard);
          commits.push(stores[each.shard]!.transact((tx) => numbered.forEach((change) => tx.change(change))));
        }
        await Promise.all(commits);
        for (const { got, after } of followers) {
          const all = await after(start);
          // Readers continue in later turns of the event loop; a reader that missed a change would wait
          // forever.
          for (let turns = 0; got.numbers.length < all.length && turns < 10_000; turns += 1)
            await new Promise((resolve) => setImmediate(resolve));
          for (const shard of [0, 1]) {
            const ofShard = (numbers: readonly number[]): number[] =>
              numbers.filter((each) => shardOf.get(each) === shard);
            expect(ofShard(got.numbers)).toEqual(ofShard(all));
          }
          expect(await after(got.position)).toEqual([]);
        }
        stop.abort();
        await Promise.all(followers.map(({ ended }) => ended));
        for (const store of stores) await store.close();
      },
    ),
    { numRuns: 150 },
  );
});

function numbersOf(changes: readonly Told[]): number[] {
  return changes.map(({ version }) => version as number);
}
