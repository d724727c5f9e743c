/**
 * Records of the registry between a data directory and PostgreSQL: both take, judge and announce them alike.
 */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Limits } from '../../../../src/core/settings/limits.js';
import { registryRecords as directoryRecords } from '../../../../src/homes/directory/transfer/registry.js';
import { registryRecords } from '../../../../src/homes/postgres/transfer/registry.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { changesOf, missing } from '../../../../src/registry/conformance/bench.js';
import type {
  AgentLine,
  AgentSessionLine,
  LinkLine,
  UserLine,
} from '../../../../src/transfer/records/record-schemas.js';
import type { TransferRecord } from '../../../../src/transfer/model.js';
import type { ExportScope } from '../../../../src/transfer/port.js';
import { openRegistry } from '../../directory/registry/open-registry.js';
import { openPostgresRegistryBench } from '../registry/open-registry.js';
import {
  type Home,
  ada,
  bob,
  both,
  fill,
  judge,
  recordsOf,
  sorted,
  storeOf,
  writeAll,
} from './registry-records.js';

let homes: Home[] = [];
let url: URL;

async function openDirectory(limits: Partial<Limits> = {}): Promise<Home> {
  const bench = await openRegistry({ shards: 2, limits });
  const home = { bench, stores: new Map(directoryRecords(bench.kernel, bench.port, () => false)) };
  homes.push(home);
  return home;
}

async function openPostgres(limits: Partial<Limits> = {}, on?: URL): Promise<Home> {
  const bench = await openPostgresRegistryBench({ limits, ...(on !== undefined && { url: on }) });
  url = bench.url;
  const { sql, port: registry, writer } = bench;
  const transact = writer.transact.bind(writer);
  const home = {
    bench,
    stores: new Map(registryRecords({ sql, transact, registry, holdsClaims: async () => false })),
  };
  homes.push(home);
  return home;
}

let records: TransferRecord[];

const linesOf = {
  users: () => records.filter((record): record is UserLine => record.type === 'registry.user'),
  agents: (user: string) =>
    records.filter((r): r is AgentLine => r.type === 'registry.agent' && (r as AgentLine).user === user),
  sessions: () => records.filter((record): record is AgentSessionLine => record.type === 'registry.session'),
  links: () => records.filter((record): record is LinkLine => record.type === 'registry.link'),
};

beforeEach(async () => {
  const source = await openDirectory();
  await fill(source);
  records = await recordsOf(source);
});
afterEach(async () => {
  for (const { bench } of homes.splice(0)) await bench.close();
});

const openBoth = async (limits: Partial<Limits> = {}): Promise<[postgres: Home, directory: Home]> => [
  await openPostgres(limits),
  await openDirectory(limits),
];

function scopeOf(user: string): ExportScope {
  return { user, withSecrets: false };
}

describe('records of the registry in PostgreSQL', () => {
  it('are the same as in a data directory after an import, page by page, with the same changes', async () => {
    expect(records).toHaveLength(2 + 3 + 3 + 4);
    const targets = await openBoth();
    expect(await both(targets, (home) => writeAll(home, records))).toEqual(records.map(() => 'written'));
    for (const home of targets) {
      expect(sorted(await recordsOf(home))).toEqual(sorted(records));
      expect(await home.bench.findings()).toEqual([]);
    }
    const changes = await both(targets, async ({ bench }) => sorted(await changesOf(bench)));
    const kinds = changes.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'user.imported')).toHaveLength(2);
    expect(kinds.filter((kind) => kind === 'agent.imported')).toHaveLength(3);
    expect(kinds.filter((kind) => kind === 'session.imported')).toHaveLength(3);
    expect(kinds.filter((kind) => kind === 'agent.linked')).toHaveLength(4);
    expect(kinds).toHaveLength(12);
  });

  it('of one user are exported without others, and only under their spelling', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, records));
    const bobs = await both(targets, (home) => recordsOf(home, scopeOf('bob')));
    expect(bobs.map(({ type }) => type)).toEqual(['registry.user', 'registry.agent', 'registry.link']);
    for (const user of ['nobody', userKey('ada').toString('hex')])
      expect(await both(targets, (home) => recordsOf(home, scopeOf(user)))).toEqual([]);
  });

  it('work: labels are found, active sessions counted, fencing numbers go on', async () => {
    const home = await openPostgres();
    await writeAll(home, records);
    const { registry } = home.bench;
    const [scout] = (await registry.listAgents(ada, { label: 'team=blue' })).items;
    expect(scout).toMatchObject({ name: 'scout', active_sessions: 2 });
    const { lease } = await registry.heartbeat(ada, scout?.agent_id as string, { holder: 'here' });
    const given = linesOf.agents('ada').find(({ name }) => name === 'scout')?.fence;
    expect(given).toBe(3);
    expect(lease.fence).toBe(4);
    await registry.createAgent(ada, { name: 'the third' });
    await expect(registry.createAgent(ada, { name: 'the fourth' })).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
  });

  it('are the same a second time, also after calls and heartbeats', async () => {
    const targets = await openBoth();
    const outcomes = await both(targets, async (home) => {
      await writeAll(home, records);
      const { bench } = home;
      bench.clock.nowMs += 3_600_000;
      const [scout] = (await bench.registry.listAgents(ada, { name: 'scout' })).items;
      await bench.registry.heartbeat(ada, scout?.agent_id as string, { holder: 'here' });
      const before = (await changesOf(bench)).length;
      const again = await writeAll(home, records);
      expect(await changesOf(bench)).toHaveLength(before);
      return again;
    });
    expect(outcomes).toEqual(records.map(() => 'same'));
    for (const record of records) expect(await judge(targets, record)).toBe('same');
  });

  it('replace stored records: sessions are counted again, and a fencing number never decreases', async () => {
    const targets = await openBoth();
    const [broken, scout] = linesOf.agents('ada').toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const [opened, moved] = linesOf.sessions().filter(({ status }) => status === 'active');
    const [user] = linesOf.users().filter(({ user: name }) => name === 'ada');
    const changed: TransferRecord[] = [
      { ...user, agents_max: null, email: '' } as UserLine,
      { ...scout, labels: { team: 'red' }, version: 9, fence: 1 } as AgentLine,
      { ...opened, status: 'closed', closed_at: 1_768_473_000_001 } as AgentSessionLine,
      { ...moved, agent_id: broken?.agent_id } as AgentSessionLine,
    ];
    await both(targets, (home) => writeAll(home, records));
    for (const record of changed) expect(await judge(targets, record)).toMatchObject({ kind: 'exists' });
    await both(targets, (home) =>
      writeAll(home, changed).then(
        () => 'written',
        ({ code }: { code: string }) => code,
      ),
    ).then((answer) => expect(answer).toBe('conflict'));
    expect(await both(targets, (home) => writeAll(home, changed, 'skip'))).toEqual(
      changed.map(() => 'skipped'),
    );
    expect(await both(targets, (home) => writeAll(home, changed, 'replace'))).toEqual(
      changed.map(() => 'replaced'),
    );
    await both(targets, async (home) => sorted(await recordsOf(home)));
    await both(targets, async ({ bench }) => sorted(await changesOf(bench)));
    const agents = await both(targets, async ({ bench }) => {
      expect(await bench.findings()).toEqual([]);
      return sorted((await bench.registry.listAgents(ada, {})).items);
    });
    const counts = agents.map(({ name, active_sessions }) => `${name} ${active_sessions}`);
    expect(counts.toSorted()).toEqual(['broken 1', 'scout 0']);
    const fences = await both(targets, async (home) =>
      (await recordsOf(home)).flatMap((record) =>
        (record as AgentLine).name === 'scout' ? [(record as AgentLine).fence] : [],
      ),
    );
    expect(fences).toEqual([3]);
  });

  it('get a higher fencing number than before when they are imported after a deletion', async () => {
    const targets = await openBoth();
    const line = { ...linesOf.agents('bob')[0], status: 'stopped', fence: 1 } as AgentLine;
    const fence = await both(targets, async (home) => {
      const { registry } = home.bench;
      await writeAll(home, [{ ...line, fence: 7 } as AgentLine]);
      await registry.deleteAgent(bob, line.agent_id);
      await writeAll(home, [line]);
      return (await registry.heartbeat(bob, line.agent_id, { holder: 'here' })).lease.fence;
    });
    expect(fence).toBeGreaterThan(7);
  });

  it('make the user of an agent that comes without one', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, linesOf.agents('bob')));
    const changes = await both(targets, async ({ bench }) =>
      (await changesOf(bench)).map(({ kind }) => kind),
    );
    expect(changes).toEqual(['user.created', 'agent.imported']);
  });
});

describe('conflicts of registry records in PostgreSQL', () => {
  it('name ids that belong to another user', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, records));
    const [agent] = linesOf.agents('ada');
    const [session] = linesOf.sessions();
    const [link] = linesOf.links().filter(({ user }) => user === 'ada');
    const [bobs] = linesOf.agents('bob');
    const stolen: [TransferRecord, string | undefined][] = [
      [{ ...agent, user: 'bob' } as AgentLine, agent?.agent_id],
      [{ ...session, user: 'bob', agent_id: bobs?.agent_id } as AgentSessionLine, session?.session_id],
      [{ ...link, user: 'bob', agent_id: bobs?.agent_id } as LinkLine, `identity:${link?.identity}`],
    ];
    for (const [record, id] of stolen)
      expect(await judge(targets, record)).toEqual({
        kind: 'name_taken',
        detail: `The id ${id} belongs to a record of another user.`,
      });
    const written = stolen.map(([record]) => record);
    expect(await both(targets, (home) => writeAll(home, written, 'replace'))).toEqual(
      written.map(() => 'skipped'),
    );
    for (const home of targets) expect(sorted(await recordsOf(home))).toEqual(sorted(records));
  });

  it('name an agent whose name another agent of the user has', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, records));
    const [one, other] = linesOf.agents('ada') as [AgentLine, AgentLine];
    const added = { ...one, agent_id: 'a'.repeat(64) };
    const renamed = { ...other, name: one.name };
    for (const record of [added, renamed])
      expect(await judge(targets, record)).toEqual({
        kind: 'name_taken',
        detail: `The user "ada" has another agent "${one.name}" (${one.agent_id}).`,
      });
    expect(await judge(targets, { ...added, user: 'bob' } as AgentLine)).toBe('new');
    const twins = ['b', 'c'].map((digit) => ({ ...added, agent_id: digit.repeat(64), name: 'twin' }));
    expect(await both(targets, (home) => writeAll(home, [added, renamed, ...twins], 'replace'))).toEqual([
      'skipped',
      'skipped',
      'written',
      'skipped',
    ]);
    for (const { bench } of targets) expect(await bench.findings()).toEqual([]);
  });

  it('hold a name while several servers import agents that have it', async () => {
    const servers = [await openPostgres(), await openPostgres({}, url)];
    const twins = ['a', 'b'].map(
      (digit) => ({ ...linesOf.agents('bob')[0], agent_id: digit.repeat(64) }) as AgentLine,
    );
    const outcomes = await Promise.all(
      servers.map((home, index) => writeAll(home, [twins[index] as AgentLine], 'skip')),
    );
    expect(outcomes.flat().toSorted()).toEqual(['skipped', 'written']);
  });

  it('name an identity that is linked to another agent of the user', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, records));
    const [link] = linesOf.links().filter(({ user }) => user === 'ada');
    const other = linesOf.agents('ada').find(({ agent_id }) => agent_id !== link?.agent_id);
    expect(await judge(targets, { ...link, agent_id: other?.agent_id } as LinkLine)).toMatchObject({
      kind: 'name_taken',
    });
  });

  it('name sessions and links without their agent, unless the file brings it', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, records));
    const orphans = [
      { ...linesOf.sessions()[0], session_id: randomUUID(), agent_id: missing } as AgentSessionLine,
      { ...linesOf.links()[0], identity: randomUUID(), agent_id: missing } as LinkLine,
    ];
    for (const record of orphans) {
      expect(await judge(targets, record)).toEqual({
        kind: 'orphan',
        detail: `The agent ${missing} does not exist, or belongs to another user.`,
      });
      expect(await judge(targets, record, { references: true })).toBe('new');
    }
    expect(await both(targets, (home) => writeAll(home, orphans, 'replace'))).toEqual(['skipped', 'skipped']);
  });

  it('name agents beyond the quota of the user, of the file or of the server', async () => {
    const targets = await openBoth({ agentsPerUserMax: 2 });
    await both(targets, (home) => writeAll(home, records));
    const [broken, scout] = linesOf.agents('ada').toSorted((x, y) => (x.name < y.name ? -1 : 1));
    const more = ['a', 'b'].map(
      (digit) => ({ ...broken, agent_id: digit.repeat(64), name: digit }) as AgentLine,
    );
    const one = more[0] as AgentLine;
    const full = { kind: 'quota', detail: 'The user "ada" would have more than 3 agents.' };
    expect(await judge(targets, one)).toBe('new');
    expect(await judge(targets, one, { newBefore: 1 })).toEqual(full);
    expect(await judge(targets, one, { newBefore: 1, agentsMax: 4 })).toBe('new');
    expect(await judge(targets, one, { agentsMax: null })).toMatchObject({ kind: 'quota' });
    const newcomer = { ...one, user: 'carol' };
    expect(await judge(targets, newcomer, { newBefore: 1 })).toBe('new');
    expect(await judge(targets, newcomer, { newBefore: 2 })).toMatchObject({ kind: 'quota' });
    expect(await both(targets, (home) => writeAll(home, more, 'skip'))).toEqual(['written', 'skipped']);
    // An agent that was present elsewhere is absent here, and does not count.
    const absent = { ...scout, agent_id: 'c'.repeat(64), name: 'c' } as AgentLine;
    expect(await judge(targets, absent, { newBefore: 1 })).toBe('new');
    expect(await both(targets, (home) => writeAll(home, [absent]))).toEqual(['written']);
    expect(await judge(targets, one)).toBe('same');
    expect(await judge(targets, more[1] as AgentLine)).toEqual(full);
  });

  it('refuse a second spelling of a user', async () => {
    const targets = await openBoth();
    await both(targets, (home) => writeAll(home, records));
    const spelled = { ...linesOf.users()[0] } as UserLine;
    spelled.user = userKey(spelled.user).toString('hex');
    expect(await judge(targets, spelled)).toMatchObject({ kind: 'exists' });
    const refused = await both(targets, (home) =>
      writeAll(home, [spelled], 'replace').then(
        () => 'written',
        ({ message }: Error) => message,
      ),
    );
    expect(refused).not.toBe('written');
  });

  it('leave out texts that PostgreSQL cannot store', async () => {
    const home = await openPostgres();
    const [agent] = linesOf.agents('ada');
    const store = storeOf(home, 'registry.agent');
    expect(store.refusalOf?.(agent as AgentLine)).toBeNull();
    expect(store.refusalOf?.({ ...agent, error_message: 'a\0b' } as AgentLine)).toContain('"error_message"');
    expect(store.refusalOf?.({ ...agent, labels: { 'a\0': '' } } as AgentLine)).toContain('"labels"');
  });

  it('hold while several servers import the same file and others beside it', async () => {
    const here = await openPostgres({ agentsPerUserMax: 5 });
    const there = await openPostgres({ agentsPerUserMax: 5 }, url);
    const crowd = Array.from(
      { length: 12 },
      (_, index) =>
        ({
          ...linesOf.agents('bob')[0],
          agent_id: index.toString(16).repeat(64),
          name: `n${index}`,
        }) as AgentLine,
    );
    const [first, second] = await Promise.all([
      writeAll(here, [...records, ...crowd.slice(0, 8)], 'skip'),
      writeAll(there, [...records, ...crowd.slice(4)], 'skip'),
    ]);
    const written = [...first, ...second].filter((outcome) => outcome === 'written').length;
    // The file once, and four of the crowd beside Bob's own agent.
    expect(written).toBe(records.length + 4);
    expect(await here.bench.findings()).toEqual([]);
    expect(await here.bench.registry.getUser(bob, 'bob')).toMatchObject({ agents: 5 });
  });
});
