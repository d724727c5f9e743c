/** What the suites of the registry work with: a home with a clock that the test turns. */
import { type Caller, fullScopes, operatorCaller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Limits } from '../../core/settings/limits.js';
import type { TestRunner } from '../../core/test-runner.js';
import { type Writer, writeOne } from '../../core/write.js';
import type { AgentAnswer } from '../schemas.js';
import { type AgentState, agentStates } from '../model.js';
import type { RegistryService } from '../service.js';

/** Where the clock of a bench stands at first: 2026-01-15T10:30:00Z, the time of the published vectors. */
export const startMs = 1_768_473_000_000;

export interface RegistryBench {
  readonly registry: RegistryService;
  /** Runs the steps of the registry. */
  readonly writer: Writer;
  /** The time by which the home decides. It stands still until a test turns it. */
  readonly clock: { nowMs: number };
  /**
   * The agents whose presence was lost, as a hook of the bench saw them. The hook announces `task.returned`
   * in the same commit.
   */
  readonly lost: readonly string[];
  /** What was announced, a list for each commit, oldest first. */
  commits(): Promise<readonly (readonly Change[])[]>;
  /** Moves the clock and does what is due by then. */
  pass(seconds: number): Promise<void>;
  /** Rows that are stored of agents, sessions, leases and links, as text. */
  agentRows(): Promise<string[]>;
  /** What the home's own check finds wrong. */
  findings(): Promise<unknown[]>;
  close(): Promise<void>;
}

/** Opens a separate, empty home. */
export type OpenRegistry = (limits?: Partial<Limits>) => Promise<RegistryBench>;

export interface RegistryTarget {
  readonly name: string;
  readonly open: OpenRegistry;
  /** How many random histories are tried in each way. */
  readonly histories?: number;
}

type Written = Pick<RegistryBench, 'registry' | 'writer'>;

/** The registry's half of a link. `IdentityLinks` writes it together with the half of messaging. */
export async function linkIdentity(
  { registry, writer }: Written,
  caller: Caller,
  agentId: string,
  identity: string,
): Promise<void> {
  await writeOne(writer, { caller }, registry.steps.linkIdentity(caller, agentId, identity));
}

export async function unlinkIdentity(
  { registry, writer }: Written,
  caller: Caller,
  identity: string,
): Promise<void> {
  await writeOne(writer, { caller }, registry.steps.unlinkIdentity(caller, identity));
}

/** One bench a test, closed after it. */
export class OneBench {
  readonly #open: OpenRegistry;
  #opened: RegistryBench | undefined;

  constructor({ afterEach }: TestRunner, open: OpenRegistry) {
    this.#open = open;
    afterEach(async () => {
      await this.#opened?.close();
      this.#opened = undefined;
    });
  }

  async open(limits: Partial<Limits> = {}): Promise<RegistryBench> {
    this.#opened = await this.#open({ agentsPerUserMax: 10, ...limits });
    return this.#opened;
  }
}

export function userCaller(user: string, given: Partial<Caller> = {}): Caller {
  return { ...operatorCaller(user), kind: 'user', scopes: fullScopes, ...given };
}

export const operator = operatorCaller();
export const alice = userCaller('alice');
export const bob = userCaller('bob');
/** The id of an agent that a bench does not have unless a test puts it there. */
export const missing = 'f'.repeat(64);

export async function changesOf(bench: RegistryBench): Promise<readonly Change[]> {
  return (await bench.commits()).flat();
}

/** The shortest way from a new agent to each state. */
const waysTo: Record<AgentState, AgentState[]> = {
  provisioning: [],
  running: ['running'],
  idle: ['running', 'idle'],
  hibernating: ['running', 'hibernating'],
  stopping: ['running', 'stopping'],
  stopped: ['running', 'stopping', 'stopped'],
  error: ['error'],
};

let names = 0;

/** A name that no agent has yet. */
export function nextName(): string {
  names += 1;
  return `agent-${names}`;
}

/** A new agent of Alice's in that state. */
export async function agentIn(
  { registry }: RegistryBench,
  status: AgentState,
  name = nextName(),
): Promise<AgentAnswer> {
  let agent = await registry.createAgent(alice, { name });
  for (const step of waysTo[status]) agent = await registry.updateAgentStatus(alice, agent.agent_id, step);
  return agent;
}

/** Every agent that some list by status has, as often as one has it. */
export async function listedByStatus({ registry }: RegistryBench): Promise<[AgentState, string][]> {
  const listed: [AgentState, string][] = [];
  for (const status of agentStates)
    for (const { agent_id } of (await registry.listAgentsByStatus(operator, status, { limit: 1_000 })).items)
      listed.push([status, agent_id]);
  return listed;
}
