/** Lists of agents: pages, filters, cursors. */
import { userKey } from '../../identity/user-key.js';
import { encodeCursor } from '../../core/paging.js';
import type { ListAgentsInput } from '../schemas.js';
import type { Caller } from '../../core/caller.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import {
  OneBench,
  type RegistryBench,
  type RegistryTarget,
  alice,
  bob,
  operator,
  userCaller,
  nextName,
} from './bench.js';

async function listAll(
  { registry }: RegistryBench,
  caller: Caller,
  input: ListAgentsInput = {},
  between: () => Promise<unknown> = async () => undefined,
): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await registry.listAgents(caller, { ...input, cursor });
    ids.push(...page.items.map(({ agent_id }) => agent_id));
    cursor = page.next_cursor ?? undefined;
    await between();
  } while (cursor !== undefined);
  return ids;
}

export function listTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`lists on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('have no gaps and no repeats over all users during writes', async () => {
      const opened = await bench.open({ agentsPerUserMax: 1_000 });
      const { registry } = opened;
      const users = Array.from({ length: 8 }, (_, index) => userCaller(`user-${index}`));
      const made = await Promise.all(
        users.flatMap((user) =>
          Array.from({ length: 12 }, (_, index) => registry.createAgent(user, { name: `agent-${index}` })),
        ),
      );
      let written = 0;
      const seen = await listAll(opened, operator, { limit: 7 }, async () => {
        written += 1;
        const user = users[written % users.length] as Caller;
        await registry.createAgent(user, { name: `late-${written}` });
        await registry.updateAgent(
          user,
          (await registry.listAgents(user, { limit: 1 })).items[0]?.agent_id as string,
          { labels: { round: String(written) } },
        );
      });
      expect(new Set(seen).size).toBe(seen.length);
      for (const { agent_id } of made) expect(seen).toContain(agent_id);
      const keys = await Promise.all(
        seen.map(async (id) => (await registry.getAgent(operator, id)).user_id + id),
      );
      expect(keys).toEqual(keys.toSorted());
      expect((await registry.listAllAgents(operator, { limit: 1_000 })).items).toHaveLength(96 + written);
      await refused(registry.listAllAgents(users[0] as Caller), 'forbidden');
    });

    for (const listSeeksMax of [1, 4, 10_000])
      it(`hold every filter at once, of one user or of all, with ${listSeeksMax} lookups a page`, async () => {
        const opened = await bench.open({ agentsPerUserMax: 1_000, listSeeksMax });
        const { registry } = opened;
        const rows: { id: string; user: string; name: string; team: string; running: boolean }[] = [];
        for (let index = 0; index < 60; index += 1) {
          const user = index % 3 === 0 ? bob : alice;
          const row = {
            user: user.user,
            name: `name-${index}`,
            team: `team-${index % 5}`,
            running: index % 2 === 0,
          };
          const { agent_id } = await registry.createAgent(user, {
            name: row.name,
            labels: { team: row.team, ...(index % 7 === 0 && { rare: '' }) },
          });
          if (row.running) await registry.start(user, agent_id);
          rows.push({ ...row, id: agent_id });
        }
        const cases: [Caller, ListAgentsInput, (row: (typeof rows)[number], index: number) => boolean][] = [
          [alice, {}, (row) => row.user === 'alice'],
          [operator, { status: 'running' }, (row) => row.running],
          [alice, { status: 'running' }, (row) => row.user === 'alice' && row.running],
          [alice, { name: 'name-1' }, (row) => row.user === 'alice' && row.name === 'name-1'],
          [operator, { label: 'team=team-2' }, (row) => row.team === 'team-2'],
          [bob, { label: 'team' }, (row) => row.user === 'bob'],
          [operator, { label: 'rare' }, (_row, index) => index % 7 === 0],
          [operator, { label: 'rare=' }, (_row, index) => index % 7 === 0],
          [
            operator,
            { label: 'team=team-1', name: 'name-1', status: 'provisioning' },
            (row) => row.team === 'team-1' && row.name === 'name-1' && !row.running,
          ],
          [
            alice,
            { label: 'team=team-1', status: 'running' },
            (row) => row.user === 'alice' && row.team === 'team-1' && row.running,
          ],
          [alice, { name: 'name' }, () => false],
          [alice, { label: 'tea' }, () => false],
        ];
        for (const [caller, input, passes] of cases) {
          const expected = rows.filter(passes).map(({ id }) => id);
          for (const limit of [1, 3, 100]) {
            const listed = await listAll(opened, caller, { ...input, limit });
            expect(listed.toSorted()).toEqual(expected.toSorted());
          }
        }
        expect((await registry.listAgentsByStatus(alice, 'running', { limit: 5 })).items).toHaveLength(5);
      });

    it('refuse cursors of other lists; a forged cursor reaches no other user', async () => {
      const { registry } = await bench.open();
      const [low, high] = ['alice', 'bob']
        .toSorted((a, b) => Buffer.compare(userKey(a), userKey(b)))
        .map((user) => userCaller(user)) as [Caller, Caller];
      for (const user of [low, high])
        for (let index = 0; index < 3; index += 1) await registry.createAgent(user, { name: nextName() });
      const page = await registry.listAgents(low, { limit: 1 });
      const cursor = page.next_cursor as string;
      for (const attempt of [
        () => registry.listAgents(high, { cursor }),
        () => registry.listAgents(low, { cursor, status: 'running' }),
        () => registry.listAgents(low, { cursor: 'x' }),
        () => registry.listAgents(low, { cursor: `${cursor}AAAA` }),
        () => registry.listUsers(operator, { cursor }),
      ]) {
        await refused(attempt(), 'invalid_cursor');
      }
      const forged = encodeCursor(JSON.stringify(['agents', high.user, null, null, null]), Buffer.alloc(64));
      const { items } = await registry.listAgents(high, { cursor: forged });
      expect(items.map(({ user }) => user)).toEqual([high.user, high.user, high.user]);
      await refused(registry.listAgents(low, { limit: 0 }), 'invalid_request');
      expect((await registry.listAgents(low, { limit: 1_000_000 })).items).toHaveLength(3);
    });
  });
}
