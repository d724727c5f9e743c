/** Random histories, compared with a model that is simple enough to be checked by reading. */
import { StoaError } from '../../core/errors.js';
import type { Expect, TestRunner } from '../../core/test-runner.js';
import { type AgentState, agentStates } from '../model.js';
import {
  OneBench,
  type RegistryBench,
  type RegistryTarget,
  nextName,
  operator,
  userCaller,
} from './bench.js';

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

/** The same numbers for the same seed (mulberry32), so that a history that failed can be run again. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From 0 to `max`. */
  upTo(max: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % (max + 1);
  }

  one<T>(items: readonly T[]): T {
    // The list is not empty, and the index is within it.
    return items[this.upTo(items.length - 1)] as T;
  }
}

const labels = ['red', 'blue', 'green'] as const;
const operations = {
  create: 3,
  move: 8,
  label: 2,
  open: 4,
  close: 3,
  delete: 2,
  beat: 4,
  release: 1,
  pass: 3,
} as const satisfies Record<Step['op'], number>;
const weighted = Object.entries(operations).flatMap(([op, weight]) =>
  // The keys of `operations` are the names of steps.
  Array.from({ length: weight }, () => op as Step['op']),
);

function randomStep(dice: Dice): Step {
  const op = dice.one(weighted);
  const agent = dice.upTo(7);
  switch (op) {
    case 'create':
      return { op, user: dice.one(['alice', 'bob']), label: dice.one(labels) };
    case 'move':
      return { op, agent, status: dice.one(agentStates), stale: dice.upTo(1) === 0 };
    case 'label':
      return { op, agent, label: dice.one(labels) };
    case 'close':
      return { op, agent, session: dice.upTo(3) };
    case 'beat': {
      const fence = dice.upTo(5);
      return { op, agent, holder: dice.one(['node-1', 'node-2']), fence: fence === 5 ? null : fence };
    }
    case 'pass':
      return { op, seconds: dice.upTo(200) };
    default:
      return { op, agent };
  }
}

function randomHistory(dice: Dice, stepsMax: number): Step[] {
  return Array.from({ length: dice.upTo(stepsMax) }, () => randomStep(dice));
}

const agentsMax = 4;

/** Does a step for real; answers the code of the refusal, or null. */
async function codeOf(attempt: Promise<unknown>): Promise<string | null> {
  try {
    await attempt;
    return null;
  } catch (error) {
    if (error instanceof StoaError) return error.code;
    throw error;
  }
}

/** The expected state, and a home that gets the same calls. */
class Model {
  readonly agents: ModelAgent[] = [];

  constructor(
    readonly real: RegistryBench,
    readonly expect: Expect,
  ) {}

  async run(step: Step): Promise<void> {
    const { registry, clock } = this.real;
    if (step.op === 'pass') {
      await this.real.pass(step.seconds);
      for (const each of this.agents) this.settle(each);
      return;
    }
    if (step.op === 'create') {
      const owned = this.agents.filter((each) => each.user === step.user && !isAway(each)).length;
      const attempt = registry.createAgent(userCaller(step.user), {
        name: nextName(),
        labels: { team: step.label },
      });
      this.expect(await codeOf(attempt)).toBe(owned >= agentsMax ? 'quota_exceeded' : null);
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
        if (step.stale) this.expect(code).toBe('version_conflict');
        else if (!allowed[it.status].includes(step.status)) this.expect(code).toBe('invalid_transition');
        else if (step.status === 'hibernating' && it.open.length > 0) this.expect(code).toBe('conflict');
        else {
          this.expect(code).toBeNull();
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
        this.expect(await codeOf(attempt)).toBe(refused ? 'conflict' : null);
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
        this.expect(await codeOf(registry.deleteAgent(caller, it.id))).toBe(refused ? 'conflict' : null);
        if (!refused) this.agents.splice(this.agents.indexOf(it), 1);
        return;
      }
      case 'beat': {
        const code = await codeOf(
          registry.heartbeat({ ...caller, fence: step.fence }, it.id, { holder: step.holder }),
        );
        if (step.fence !== null && step.fence < it.fence) this.expect(code).toBe('fenced');
        else if (it.holder !== null && it.holder !== step.holder) this.expect(code).toBe('conflict');
        else {
          this.expect(code).toBeNull();
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
    this.expect(seen.toSorted(byId)).toEqual(expected.toSorted(byId));
    for (const status of agentStates) {
      const { items: listed } = await registry.listAgentsByStatus(operator, status, { limit: 1_000 });
      this.expect(listed.map(({ agent_id }) => agent_id).toSorted()).toEqual(
        this.agents
          .filter((each) => each.status === status)
          .map(({ id }) => id)
          .toSorted(),
      );
    }
    for (const team of ['red', 'blue', 'green']) {
      const { items: listed } = await registry.listAgents(operator, { label: `team=${team}`, limit: 1_000 });
      this.expect(listed.map(({ agent_id }) => agent_id).toSorted()).toEqual(
        this.agents
          .filter((each) => each.label === team)
          .map(({ id }) => id)
          .toSorted(),
      );
    }
    for (const it of this.agents) {
      const { items: sessions } = await registry.listSessions(operator, it.id, { limit: 1_000 });
      this.expect(sessions.map(({ session_id }) => session_id).toSorted()).toEqual(
        [...it.open, ...it.closed].toSorted(),
      );
    }
    for (const name of ['alice', 'bob'])
      this.expect(await registry.countAgents(userCaller(name))).toBe(
        this.agents.filter((each) => each.user === name).length,
      );
  }
}

function byId(a: { agent_id: string }, b: { agent_id: string }): number {
  return a.agent_id < b.agent_id ? -1 : 1;
}

/** Does what it can; refusals are expected, faults are not. */
/** An agent that was present, has gone and holds nothing does not count in the quota. */
function isAway({ holder, fence, open, status }: ModelAgent): boolean {
  return fence > 0 && holder === null && open.length === 0 && status !== 'stopped';
}

async function runBlindly(
  expect: Expect,
  real: RegistryBench,
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
      create: () => registry.createAgent(caller, { name: nextName() }),
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

export function modelTests(runner: TestRunner, { name, open, histories = 30 }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`random histories on ${name}`, () => {
    const bench = new OneBench(runner, open);

    for (let seed = 1; seed <= histories; seed += 1) {
      it(`end as the model says, with every index in order: ${seed}`, async () => {
        const real = await bench.open({
          agentsPerUserMax: agentsMax,
          idleAfterSeconds: 0,
          hibernateAfterSeconds: 0,
        });
        const model = new Model(real, expect);
        for (const step of randomHistory(new Dice(seed), 60)) await model.run(step);
        await model.compare();
        expect(await real.findings()).toEqual([]);
      });

      it(`of many callers at once leave every index in order, and no sleeper with a session: ${seed}`, async () => {
        const real = await bench.open({
          agentsPerUserMax: agentsMax,
          idleAfterSeconds: 30,
          hibernateAfterSeconds: 50,
        });
        const dice = new Dice(-seed);
        const ids: [string, string][] = [];
        for (const user of ['alice', 'bob'])
          for (let index = 0; index < 3; index += 1)
            ids.push([
              user,
              (await real.registry.createAgent(userCaller(user), { name: nextName() })).agent_id,
            ]);
        const callers = Array.from({ length: 2 + dice.upTo(3) }, () => randomHistory(dice, 12));
        await Promise.all(callers.map((steps) => runBlindly(expect, real, ids, steps)));
        const { items } = await real.registry.listAgents(operator, { limit: 1_000 });
        for (const each of items) if (each.status === 'hibernating') expect(each.active_sessions).toBe(0);
        expect(await real.findings()).toEqual([]);
      });
    }
  });
}
