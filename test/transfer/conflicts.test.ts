import { kernelOf } from '../kernel-of.js';
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { userKey } from '../../src/identity/user-key.js';
import type { Stoa } from '../../src/index.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';
import { ada, comparable, expectHolderKeepsName, expectSameWords, linesOf, secret } from './kit.js';
import { expectHealthy, run, useExportedStore } from './exported-store.js';

const exported = useExportedStore();
const { open, save } = exported;

describe('conflicts', () => {
  let target: Stoa;
  let number = 0;

  beforeEach(async () => {
    number += 1;
    target = await open(`conflicts-${number}`);
  });

  afterEach(() => expectHealthy(target));

  it('are listed by a dry run, which writes nothing', async () => {
    await target.data.set(ada, 'notes', 'twice', 'mine');
    await target.workspaces.createWorkspace(ada, { name: 'site' });
    const before = await linesOf(target);
    const report = await run(target, exported.plain, { dryRun: true });
    expect(report.conflicts.map(({ kind, type }) => `${type} ${kind}`).toSorted()).toEqual([
      'data.document exists',
      'registry.user exists',
      'workspaces.workspace name_taken',
    ]);
    expect(report.conflicts.every(({ line }) => line > 1)).toBe(true);
    expect(comparable(await linesOf(target))).toEqual(comparable(before));
  });

  it('include ids of another user, also in another shard, which keeps them', async () => {
    const shardsTarget = await open('ids-of-others', { engine: 'memory', shards: 4 });
    const { registry } = shardsTarget;
    const kernel = kernelOf(shardsTarget);
    const [agent] = (await exported.source.registry.listAgents(ada)).items;
    const home = kernel.storeOf(userKey('ada'));
    const other = ['bob', 'cleo', 'dan', 'eve', 'fay'].find((name) => kernel.storeOf(userKey(name)) !== home);
    const agentId = agent?.agent_id ?? '';
    await registry.putAgent(operatorCaller(other), { agent_id: agentId, name: 'theirs' });
    const { conflicts } = await run(shardsTarget, exported.plain, { dryRun: true });
    expect(conflicts.map(({ kind, type }) => `${type} ${kind}`)).toContain('registry.agent name_taken');
    await run(shardsTarget, exported.plain, { onConflict: 'skip' });
    expect((await registry.getAgent(operatorCaller(), agentId)).name).toBe('theirs');
    await expectHealthy(shardsTarget);
  });

  it('stop an import before it writes anything, by default', async () => {
    await target.data.set(ada, 'notes', 'twice', 'mine');
    const before = comparable(await linesOf(target));
    await expect(run(target, exported.plain)).rejects.toMatchObject({ code: 'conflict' });
    expect(comparable(await linesOf(target))).toEqual(before);
    await run(target, exported.plain, { onConflict: 'skip' });
    expect(await target.data.get(ada, 'notes', 'twice')).toBe('mine');
    await run(target, exported.plain, { onConflict: 'replace' });
    expect(await target.data.get(ada, 'notes', 'twice')).toBe(2);
    expect((await target.data.getEntry(ada, 'notes', 'twice'))?.version).toBe(2);
  });

  it('a replaced record loses neither its secret nor its counters', async () => {
    await run(target, exported.whole);
    const [workspace] = (await target.workspaces.listWorkspaces(ada)).items;
    await target.workspaces.updateWorkspace(ada, workspace?.id as string, { name: 'renamed' });
    const report = await run(target, exported.plain, { onConflict: 'replace' });
    expect(report.replaced).toBe(1);
    expect(await target.workspaces.getWorkspace(ada, workspace?.id as string)).toMatchObject({
      name: 'site',
      active_tasks: 2,
    });
    expect(await target.workspaces.revealWorkspaceKey(ada, workspace?.id as string)).toBe(secret);
  });

  it('include a new name for an agent that holds a task, which keeps its name', async () => {
    await run(target, exported.plain);
    await expectHolderKeepsName(target, (options) => run(target, exported.plain, options));
  });

  it('name the record that has the name', () =>
    expectSameWords(target, () => run(target, exported.plain, { dryRun: true })));

  it('a replaced identity can no longer be found by the key that it loses', async () => {
    await run(target, exported.plain);
    const line = (await linesOf(target)).find((each) => each.includes('"messaging.identity"')) as string;
    const { id, publicKey } = JSON.parse(line) as { id: string; publicKey: string };
    const newPublicKey = randomBytes(32).toString('base64');
    await writtenPort(target.messaging).rotateKey({
      id,
      oldPublicKey: publicKey,
      newPublicKey,
      proof: {
        scheme: 'aicq',
        publicKey,
        signature: '',
        nonce: '',
        timestampMs: 0,
        request: { base64: '' },
      },
    });
    expect((await run(target, exported.plain, { onConflict: 'replace' })).replaced).toBe(1);
    expect(await writtenPort(target.messaging).keys(id)).toMatchObject([{ publicKey }]);
    const register = { publicKey: newPublicKey, name: 'another', email: null, proven: true };
    expect((await writtenPort(target.messaging).register(register)).created).toBe(true);
  });

  it('a replaced direct message can no longer be found by its id', async () => {
    const lines = (await linesOf(exported.source)).slice(0, -1);
    // Ids that hold another time than the message has: those are found through a row of an index.
    const withId = (id: string): string[] =>
      lines.map((line) =>
        line.includes('"messaging.direct"')
          ? `${JSON.stringify({ ...(JSON.parse(line) as object), id })}\n`
          : line,
      );
    await run(target, await save(withId('01ARZ3NDEKTSV4RRFFQ69G5FAV'), 'direct-first.ndjson'), {
      keepGoing: true,
    });
    const other = await save(withId('01BX5ZZKBKACTAV9WEVGEMMVRZ'), 'direct-other.ndjson');
    expect((await run(target, other, { onConflict: 'replace', keepGoing: true })).replaced).toBe(1);
  });

  it('a name in use skips the record and everything below it', async () => {
    await target.workspaces.createWorkspace(ada, { name: 'site' });
    const report = await run(target, exported.plain, { onConflict: 'skip' });
    // The workspace, its project, its session and three tasks, beside the user that was there.
    expect(report.skipped).toBe(7);
  });

  it('the quota of agents is checked over the whole file, with the quota in the file', async () => {
    const lines = (await linesOf(exported.source, { user: 'bob', domains: ['registry'] })).filter(
      (line) => !line.includes('stoa.end'),
    );
    const agent = JSON.parse(lines.find((line) => line.includes('registry.agent')) as string) as Record<
      string,
      unknown
    >;
    const many = Array.from(
      { length: 101 },
      (_, index) =>
        `${JSON.stringify({ ...agent, agent_id: randomBytes(32).toString('hex'), name: `n${index}` })}\n`,
    );
    const path = await save([...lines, ...many], 'quota.ndjson');
    const report = await run(target, path, { dryRun: true, keepGoing: true });
    expect(report.conflicts.map(({ kind }) => kind)).toEqual(['quota', 'quota']);
    const raised = lines.map((line) => line.replace('"agents_max":null', '"agents_max":110'));
    expect(
      (await run(target, await save([...raised, ...many], 'raised.ndjson'), { keepGoing: true })).written,
    ).toBe(103);
  });
});

describe('documents', () => {
  const ada = operatorCaller('ada');

  it('are checked against the limits of the target store, each line before anything is written', async () => {
    const generous = await open('generous', { limits: { dataKeyBytesMax: 1_200 } });
    await generous.data.setMany(ada, 'notes', { a: 1, ['k'.repeat(1_100)]: 1 });
    const lines = await linesOf(generous, { domains: ['data'] });
    expect(await run(generous, await save(lines))).toMatchObject({ bad_total: 0, same: 2 });
    const usual = await open('usual');
    await expect(run(usual, await save(lines))).rejects.toThrow('has 1,100 bytes, which exceeds 1,024');
    expect(comparable(await linesOf(usual))).toEqual([]);
    expect(await run(usual, await save(lines), { keepGoing: true })).toMatchObject({
      bad_total: 1,
      bad: [{ line: 3 }],
      written: 1,
    });
  });

  it('nested too deeply are bad lines, as for every other record', async () => {
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    const lines = await linesOf(exported.source);
    const project = lines.findIndex((line) => line.includes('"type":"workspaces.project"'));
    const nested = lines
      .with(project, (lines[project] as string).replace('"config":{', `"config":{"deep":${deep},`))
      .toSpliced(1, 0, `{"type":"data.document","userId":"ada","namespace":"n","key":"k","value":${deep}}\n`);
    await expect(run(await open('deep'), await save(nested))).rejects.toMatchObject({
      code: 'invalid_request',
      details: { bad: [{ line: 2 }, { line: project + 2, reason: 'the line is nested too deeply' }] },
    });
  });

  it('beyond a quota are conflicts, counted over the file, and skipped on request', async () => {
    const many = await open('many');
    await many.data.setMany(
      ada,
      'notes',
      Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`k${index}`, index])),
    );
    const path = await save(await linesOf(many, { domains: ['data'] }), 'quota.ndjson');
    const small = await open('few', { limits: { dataDocumentsPerUserMax: 3 } });
    await small.data.set(ada, 'other', 'mine', 1);
    const before = comparable(await linesOf(small));
    expect(await run(small, path, { dryRun: true })).toMatchObject({
      conflicts_total: 3,
      conflicts: [{ kind: 'quota' }, { kind: 'quota' }, { kind: 'quota' }],
    });
    await expect(run(small, path)).rejects.toMatchObject({ code: 'conflict' });
    expect(comparable(await linesOf(small))).toEqual(before);
    expect(await run(small, path, { onConflict: 'skip' })).toMatchObject({ written: 2, skipped: 3 });
    expect((await small.data.listKeys(ada, 'notes')).items.map(({ key }) => key)).toEqual(['k0', 'k1']);
  });
});
