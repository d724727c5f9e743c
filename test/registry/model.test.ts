/** Random histories against a model that is simple enough to check by reading. */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { registryChecks } from '../../src/homes/directory/doctor/registry/registry.js';
import { StoaError } from '../../src/core/errors.js';
import { examineAll } from '../../src/homes/directory/kernel/inspect/doctor.js';
import { type AgentState, agentStates } from '../../src/registry/model.js';
import { type TestRegistry, openRegistry, operator, userCaller } from './open-registry.js';

const allowed: Record<AgentState, AgentState[]> = {
  provisioning: ['running', 'error'],
  running: ['idle', 'hibernating', 'stopping', 'error'],
  idle: ['running', 'hibernating', 'stopping', 'error'],
  hibernating: ['running', 'provisioning', 'stopping', 'error'],
  stopping: ['stopped', 'error'],
  stopped: ['provisioning'],
  error: ['stopped', 'provisioning'],
};

interface ModelAgent {
  id: string;
  user: string;
  status: AgentState;
  label: string;
  version: number;
  open: string[];
  closed: string[];
  holder: string | null;
  fence: number;
  lostAtMs: number;
}

type Step =
  | { op: 'create'; user: string; label: string }
  | { op: 'move'; agent: number; status: AgentState; stale: boolean }
  | { op: 'label'; agent: number; label: string }
  | { op: 'open'; agent: number }
  | { op: 'close'; agent: number; session: number }
  | { op: 'delete'; agent: number }
  | { op: 'beat'; agent: number; holder: string; fence: number | null }
  | { op: 'release'; agent: number }
  | { op: 'pass'; seconds: number };

const user = fc.constantFrom('alice', 'bob');
const label = fc.constantFrom('red', 'blue', 'green');
const agent = fc.nat(7);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ op: fc.constant('create' as const), user, label }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant('move' as const),
      agent,
      status: fc.constantFrom(...agentStates),
      stale: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('label' as const), agent, label }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('open' as const), agent }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('close' as const), agent, session: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('delete' as const), agent }) },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant('beat' as const),
      agent,
      holder: fc.constantFrom('node-1', 'node-2'),
      fence: fc.option(fc.nat(4)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('release' as const), agent }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('pass' as const), seconds: fc.nat(200) }) },
);

const agentsMax = 4;

/** Runs a step on the real store; returns the code of the refusal, or null. */
async function codeOf(attempt: Promise<unknown>): Promise<string | null> {
  try {
    await attempt;
    return null;
  } catch (error) {
    if (error instanceof StoaError) return error.code;
    throw error;
  }
}

class Model {
  readonly agents: ModelAgent[] = [];

  constructor(readonly real: TestRegistry) {}

  async run(step: Step): Promise<void> {
    const { registry, clock } = this.real;
    if (step.op === 'pass') {
      await this.real.pass(step.seconds);
      for (const each of this.agents) this.settle(each);
      return;
    }
    if (step.op === 'create') {
      const owned = this.agents.filter((each) => each.user === step.user).length;
      const attempt = registry.createAgent(userCaller(step.user), {
        name: 'scout',
        labels: { team: step.label },
      });
      expect(await codeOf(attempt)).toBe(owned >= agentsMax ? 'quota_exceeded' : null);
      if (owned >= agentsMax) return;
      const { agent_id } = await attempt;
      this.agents.push({
        id: agent_id,
        user: step.user,
        status: 'provisioning',
        label: step.label,
        version: 1,
        open: [],
        closed: [],
        holder: null,
        fence: 0,
        lostAtMs: 0,
      });
      return;
    }
    const it = this.agents[step.agent % Math.max(1, this.agents.length)];
    if (it === undefined) return;
    const caller = userCaller(it.user);
    switch (step.op) {
      case 'move': {
        const code = await codeOf(
          registry.updateAgentStatus(caller, it.id, step.status, {
            ifVersion: step.stale ? it.version - 1 : it.version,
          }),
        );
        if (step.stale) expect(code).toBe('version_conflict');
        else if (!allowed[it.status].includes(step.status)) expect(code).toBe('invalid_transition');
        else if (step.status === 'hibernating' && it.open.length > 0) expect(code).toBe('conflict');
        else {
          expect(code).toBeNull();
          this.become(it, step.status);
        }
        return;
      }
      case 'label':
        await registry.updateAgent(caller, it.id, { labels: { team: step.label } });
        if (it.label !== step.label) it.version += 1;
        it.label = step.label;
        return;
      case 'open': {
        const attempt = registry.openSession(caller, it.id);
        const refused = ['provisioning', 'stopping', 'error'].includes(it.status);
        expect(await codeOf(attempt)).toBe(refused ? 'conflict' : null);
        if (refused) return;
        it.open.push((await attempt).session_id);
        if (it.status === 'idle') this.become(it, 'running');
        else if (it.status !== 'running') this.become(it, 'provisioning');
        return;
      }
      case 'close': {
        const session = it.open[step.session % Math.max(1, it.open.length)] ?? it.closed[0];
        if (session === undefined) return;
        await registry.closeSession(caller, session);
        if (!it.open.includes(session)) return;
        it.open = it.open.filter((each) => each !== session);
        it.closed.push(session);
        if (it.open.length === 0 && it.status === 'running') this.become(it, 'idle');
        return;
      }
      case 'delete': {
        const refused = it.status !== 'stopped' && it.status !== 'error';
        expect(await codeOf(registry.deleteAgent(caller, it.id))).toBe(refused ? 'conflict' : null);
        if (!refused) this.agents.splice(this.agents.indexOf(it), 1);
        return;
      }
      case 'beat': {
        const code = await codeOf(
          registry.heartbeat({ ...caller, fence: step.fence }, it.id, { holder: step.holder }),
        );
        if (step.fence !== null && step.fence < it.fence) expect(code).toBe('fenced');
        else if (it.holder !== null && it.holder !== step.holder) expect(code).toBe('conflict');
        else {
          expect(code).toBeNull();
          Object.assign(it, {
            holder: step.holder,
            fence: Math.max(1, it.fence),
            lostAtMs: clock.nowMs + 90_000,
          });
        }
        return;
      }
      case 'release':
        await registry.releaseLease(caller, it.id);
        if (it.holder !== null) Object.assign(it, { holder: null, fence: it.fence + 1 });
    }
  }

  /** What passing time does to a lease. */
  settle(it: ModelAgent): void {
    if (it.holder !== null && this.real.clock.nowMs >= it.lostAtMs)
      Object.assign(it, { holder: null, fence: it.fence + 1 });
  }

  become(it: ModelAgent, status: AgentState): void {
    it.status = status;
    it.version += 1;
  }

  async compare(): Promise<void> {
    const { registry } = this.real;
    const { items } = await registry.listAgents(operator, { limit: 1_000 });
    const seen = items.map(({ agent_id, user, status, labels, version, active_sessions, lease }) => ({
      agent_id,
      user,
      status,
      labels,
      version,
      active_sessions,
      holder: lease?.holder ?? null,
    }));
    const expected = this.agents.map(({ id, user, status, label: team, version, open, holder }) => ({
      agent_id: id,
      user,
      status,
      labels: { team },
      version,
      active_sessions: open.length,
      holder,
    }));
    expect(seen.toSorted(byId)).toEqual(expected.toSorted(byId));
    for (const status of agentStates) {
      const { items: listed } = await registry.listAgentsByStatus(operator, status, { limit: 1_000 });
      expect(listed.map(({ agent_id }) => agent_id).toSorted()).toEqual(
        this.agents
          .filter((each) => each.status === status)
          .map(({ id }) => id)
          .toSorted(),
      );
    }
    for (const team of ['red', 'blue', 'green']) {
      const { items: listed } = await registry.listAgents(operator, { label: `team=${team}`, limit: 1_000 });
      expect(listed.map(({ agent_id }) => agent_id).toSorted()).toEqual(
        this.agents
          .filter((each) => each.label === team)
          .map(({ id }) => id)
          .toSorted(),
      );
    }
    for (const it of this.agents) {
      const { items: sessions } = await registry.listSessions(operator, it.id, { limit: 1_000 });
      expect(sessions.map(({ session_id }) => session_id).toSorted()).toEqual(
        [...it.open, ...it.closed].toSorted(),
      );
    }
    for (const name of ['alice', 'bob'])
      expect(await registry.countAgents(userCaller(name))).toBe(
        this.agents.filter((each) => each.user === name).length,
      );
  }
}

function byId(a: { agent_id: string }, b: { agent_id: string }): number {
  return a.agent_id < b.agent_id ? -1 : 1;
}

async function expectHealthy({ kernel }: TestRegistry): Promise<void> {
  const found = [];
  for await (const finding of examineAll(kernel.stores, registryChecks(kernel))) found.push(finding);
  expect(found).toEqual([]);
}

describe.each([
  { engine: 'memory', shards: 1, numRuns: 60 },
  { engine: 'memory', shards: 4, numRuns: 30 },
  { engine: 'lmdb', shards: 1, numRuns: 5 },
] as const)('a random history on $engine with $shards shard(s)', ({ engine, shards, numRuns }) => {
  it('ends in the state of the model, with every index right', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const real = await openRegistry({
          engine,
          shards,
          limits: { agentsPerUserMax: agentsMax, idleAfterSeconds: 0, hibernateAfterSeconds: 0 },
        });
        try {
          const model = new Model(real);
          for (const each of steps) await model.run(each);
          await model.compare();
          await expectHealthy(real);
        } finally {
          await real.close();
        }
      }),
      { numRuns },
    );
  });

  it('of many concurrent callers leaves every index right, and no hibernating agent with a session', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { maxLength: 12 }), { minLength: 2, maxLength: 5 }),
        async (histories) => {
          const real = await openRegistry({
            engine,
            shards,
            limits: { agentsPerUserMax: agentsMax, idleAfterSeconds: 30, hibernateAfterSeconds: 50 },
          });
          try {
            const ids: [string, string][] = [];
            for (const name of ['alice', 'bob'])
              for (let index = 0; index < 3; index += 1)
                ids.push([
                  name,
                  (await real.registry.createAgent(userCaller(name), { name: 'scout' })).agent_id,
                ]);
            await Promise.all(histories.map((steps) => runBlindly(real, ids, steps)));
            const { items } = await real.registry.listAgents(operator, { limit: 1_000 });
            for (const each of items) if (each.status === 'hibernating') expect(each.active_sessions).toBe(0);
            await expectHealthy(real);
          } finally {
            await real.close();
          }
        },
      ),
      { numRuns },
    );
  });
});

/** Does what it can; refusals are expected, faults are not. */
async function runBlindly(
  real: TestRegistry,
  ids: readonly [string, string][],
  steps: readonly Step[],
): Promise<void> {
  const { registry } = real;
  const opened: string[] = [];
  for (const each of steps) {
    if (each.op === 'pass') {
      await real.pass(each.seconds);
      continue;
    }
    const [name, id] = ids[('agent' in each ? each.agent : 0) % ids.length] as [string, string];
    const caller = userCaller(name);
    const attempts: Record<Exclude<Step['op'], 'pass'>, () => Promise<unknown>> = {
      create: () => registry.createAgent(caller, { name: 'more' }),
      move: () => registry.updateAgentStatus(caller, id, each.op === 'move' ? each.status : 'running'),
      label: () =>
        registry.updateAgent(caller, id, { labels: { team: each.op === 'label' ? each.label : '' } }),
      open: async () => opened.push((await registry.openSession(caller, id)).session_id),
      close: () => registry.closeSession(operator, opened.at(-1) ?? '00000000-0000-7000-8000-000000000000'),
      delete: () => registry.deleteAgent(caller, id),
      beat: () => registry.heartbeat(caller, id, { holder: each.op === 'beat' ? each.holder : '' }),
      release: () => registry.releaseLease(caller, id),
    };
    const code = await codeOf(attempts[each.op]());
    expect([null, 'not_found', 'conflict', 'invalid_transition', 'quota_exceeded']).toContain(code);
  }
}
