/**
 * Clients of all four domains that work at once through the balancer, and the history of what they were
 * answered.
 */
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, type Reply, fieldOf, numberIn, stringIn, textIn } from './caller.js';
import type { Claim, Report, Write } from './checker/history.js';
import type { Call } from './checker/linearizable.js';
import type { DocumentInput, DocumentOutput, LeaseInput, LeaseOutput } from './checker/models.js';
import { leaseGraceSeconds, leaseSeconds } from './fleet.js';
import type { Random } from './random.js';

export type DocumentCall = Call<DocumentInput, DocumentOutput>;
export type LeaseCall = Call<LeaseInput, LeaseOutput>;

export interface History {
  readonly documents: Map<string, DocumentCall[]>;
  readonly leases: Map<string, LeaseCall[]>;
  readonly notes: Write[];
  readonly tasks: Write[];
  readonly claims: Claim[];
  readonly reports: Report[];
  /** By who posted them. */
  readonly posts: Map<string, Write[]>;
  readonly commits: Write[];
}

export function emptyHistory(): History {
  return {
    documents: new Map(),
    leases: new Map(),
    notes: [],
    tasks: [],
    claims: [],
    reports: [],
    posts: new Map(),
    commits: [],
  };
}

/** What the clients work on. */
export interface Places {
  readonly workspace: string;
  readonly project: string;
  readonly session: string;
  readonly room: string;
}

export async function preparePlaces(caller: Caller, user: string): Promise<Places> {
  const made = async (path: string, body: unknown): Promise<unknown> => {
    const reply = await caller.settle({ method: 'POST', path, body }, `prepare ${path}`);
    if (reply.outcome !== 'accepted') throw new Error(`POST ${path}: ${JSON.stringify(reply)}`);
    return reply.body;
  };
  const workspace = textIn(await made('/v1/workspaces', { name: 'cluster' }), 'id');
  const project = textIn(await made(`/v1/workspaces/${workspace}/projects`, { name: 'work' }), 'id');
  const session = textIn(await made(`/v1/projects/${project}/sessions`, { status: 'active' }), 'id');
  const allowed = await caller.call({
    method: 'PUT',
    path: `/v1/users/${user}`,
    body: { agents_max: agentsMax },
  });
  if (allowed.outcome !== 'accepted') throw new Error(`PUT /v1/users/${user}: ${JSON.stringify(allowed)}`);
  // Its messages are counted where everyone can read the count.
  return { workspace, project, session, room: globalRoomId };
}

/** Shared by the clients of one kind. */
export interface Client {
  readonly name: string;
  readonly caller: Caller;
  readonly history: History;
  readonly places: Places;
  readonly random: Random;
  /** True once the load is over. */
  readonly isOver: () => boolean;
}

/** A search over one document or lease stays short, whatever the length of the run. */
const callsPerDocument = 60;
const callsPerLease = 150;
const agentsMax = 10_000;
const documentsAtOnce = 3;
export const taskLeaseSeconds = 2;
/** Tasks come back when a worker falls silent, more often than the usual three times. */
const attemptsMax = 100;
const pauseMsMax = 30;
/** While a database is away every call has an unknown outcome; a few of them are enough. */
const afterUnknownMs = 300;
const telling: ReadonlySet<string> = new Set(['not_found', 'version_conflict']);

const nowMs = (): number => performance.now();

function append<Item>(lists: Map<string, Item[]>, name: string, item: Item): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, [item]);
  else list.push(item);
}

export function countOf(lists: ReadonlyMap<string, readonly unknown[]>): number {
  return [...lists.values()].reduce((sum, { length }) => sum + length, 0);
}

const outcomeOf = ({ outcome }: Reply): Write['outcome'] => outcome;

/** Reads, writes and compare-and-sets of documents that several clients share. */
export async function useDocuments({
  name,
  caller,
  history,
  random,
  isOver,
}: Omit<Client, 'places'>): Promise<void> {
  const versions = new Map<string, number>();
  for (let count = 0; !isOver(); count += 1) {
    const round = Math.floor(countOf(history.documents) / (callsPerDocument * documentsAtOnce));
    const key = `register-${round}-${random.below(documentsAtOnce)}`;
    const kind = random.below(10);
    const known = versions.get(key) ?? 0;
    const input: DocumentInput =
      kind < 4
        ? { call: 'read' }
        : { call: 'write', value: `${name}-${count}`, ifVersion: kind < 8 ? known : undefined };
    const calledAtMs = nowMs();
    const path = `/v1/data/registers/${key}`;
    const reply =
      input.call === 'read'
        ? await caller.call({ method: 'GET', path })
        : await caller.call({
            method: 'PUT',
            path,
            body: { value: input.value },
            headers: conditionOf(input.ifVersion),
          });
    // A refusal that says nothing of the document.
    if (reply.outcome === 'refused' && !telling.has(reply.code)) continue;
    const output = documentOutput(input, reply);
    if (output === undefined) await sleep(afterUnknownMs);
    append(history.documents, key, {
      input,
      output,
      calledAtMs,
      returnedAtMs: output === undefined ? Infinity : nowMs(),
    });
    if (output !== undefined && 'found' in output) versions.set(key, output.found.version);
    if (output !== undefined && 'written' in output) versions.set(key, output.written);
    await sleep(random.below(pauseMsMax));
  }
}

function conditionOf(ifVersion: number | undefined): Record<string, string> {
  if (ifVersion === undefined) return {};
  return ifVersion === 0 ? { 'if-none-match': '*' } : { 'if-match': `"${ifVersion}"` };
}

function documentOutput(input: DocumentInput, reply: Reply): DocumentOutput | undefined {
  if (reply.outcome === 'unknown') return undefined;
  if (reply.outcome === 'accepted') {
    const version = numberIn(reply.body, 'version');
    return input.call === 'read'
      ? { found: { version, value: textIn(reply.body, 'value') } }
      : { written: version };
  }
  return reply.code === 'not_found'
    ? { found: { version: 0, value: null } }
    : { refused: 'version_mismatch' };
}

/** Documents that are written once each: half of them until the outcome is known. */
export async function writeNotes({ name, caller, history, random, isOver }: Client): Promise<void> {
  for (let count = 0; !isOver(); count += 1) {
    const note = `${name}-${count}`;
    const request = {
      method: 'PUT',
      path: `/v1/data/notes/${note}`,
      body: { value: note },
      headers: { 'if-none-match': '*' },
    } as const;
    const reply = random.below(2) === 0 ? await caller.call(request) : await caller.settle(request, note);
    history.notes.push({ name: note, outcome: outcomeOf(reply) });
    await sleep(random.below(pauseMsMax));
  }
}

export async function makeTasks({ name, caller, history, places, random, isOver }: Client): Promise<void> {
  for (let count = 0; !isOver(); count += 1) {
    const task = `${name}-${count}`;
    const reply = await caller.settle(
      {
        method: 'POST',
        path: `/v1/sessions/${places.session}/tasks`,
        body: { command: task, max_attempts: attemptsMax },
      },
      task,
    );
    history.tasks.push({ name: task, outcome: outcomeOf(reply) });
    await sleep(random.below(pauseMsMax));
  }
}

/** Claims and completes tasks; now and then it falls silent, or reports after its lease is over. */
export async function workOnTasks({ name, caller, history, places, random, isOver }: Client): Promise<void> {
  for (let count = 0; !isOver(); count += 1) {
    const calledAtMs = nowMs();
    const reply = await caller.call({
      method: 'POST',
      path: `/v1/projects/${places.project}/tasks/claim`,
      body: { lease_seconds: taskLeaseSeconds, wait: 1 },
      headers: { 'stoa-agent': name },
    });
    if (reply.outcome !== 'accepted' || reply.status === 204) {
      if (reply.outcome !== 'accepted') await sleep(50);
      continue;
    }
    const task = textIn(fieldOf(reply.body, 'task'), 'id');
    const fence = numberIn(fieldOf(reply.body, 'lease'), 'fence');
    const leaseMs = taskLeaseSeconds * 1_000;
    history.claims.push({ task, holder: name, fence, calledAtMs, returnedAtMs: nowMs(), leaseMs });
    const fate = random.below(40);
    if (fate === 0) continue;
    await sleep(fate === 1 ? leaseMs + 500 : random.below(pauseMsMax));
    await report({ name, caller, history }, { task, fence, output: `${name}-${count}` });
  }
}

/** The same report may be sent again, so it is, until the outcome is known or the lease is over. */
async function report(
  { name, caller, history }: Pick<Client, 'name' | 'caller' | 'history'>,
  { task, fence, output }: { task: string; fence: number; output: string },
): Promise<void> {
  const calledAtMs = nowMs();
  const attempt = (): Promise<Reply> =>
    caller.call({
      method: 'POST',
      path: `/v1/tasks/${task}/complete`,
      body: { fence, output },
      headers: { 'stoa-agent': name },
    });
  let reply = await attempt();
  while (reply.outcome === 'unknown' && nowMs() < calledAtMs + taskLeaseSeconds * 1_000) {
    await sleep(100);
    reply = await attempt();
  }
  history.reports.push({ task, fence, output, outcome: outcomeOf(reply), calledAtMs });
}

export async function postMessages({ name, caller, history, places, random, isOver }: Client): Promise<void> {
  for (let count = 0; !isOver(); count += 1) {
    const body = `${name}-${count}`;
    const reply = await caller.call({ method: 'POST', path: `/room/${places.room}`, body: { body } });
    append(history.posts, name, { name: body, outcome: outcomeOf(reply) });
    await sleep(random.below(pauseMsMax));
  }
}

/** A document, a task and a message in one commit: all of them, or none. */
export async function commitAll({ name, caller, history, places, random, isOver }: Client): Promise<void> {
  for (let count = 0; !isOver(); count += 1) {
    const part = `${name}-${count}`;
    const body = {
      operations: [
        { op: 'data.set', namespace: 'commits', key: part, value: part, if_version: 0 },
        { op: 'task.create', session_id: places.session, command: part, max_attempts: attemptsMax },
        { op: 'room.post', room: places.room, body: part },
      ],
    };
    const reply = await caller.settle({ method: 'POST', path: '/v1/commit', body }, part);
    history.commits.push({ name: part, outcome: commitOutcome(reply) });
    await sleep(random.below(pauseMsMax));
  }
}

function commitOutcome(reply: Reply): Write['outcome'] {
  return reply.outcome === 'accepted' && fieldOf(reply.body, 'ok') === false ? 'refused' : reply.outcome;
}

/**
 * Takes the lease of an agent, renews it or lets it go, and writes under its fencing number, in time or too
 * late.
 */
export async function useLeases({ name, caller, history, random, isOver }: Client): Promise<void> {
  const lifeMs = (leaseSeconds + leaseGraceSeconds) * 1_000;
  for (let count = 0; !isOver(); count += 1) {
    const agent = await leaderOf(caller, Math.floor(countOf(history.leases) / callsPerLease));
    const [renewal, calledAtMs] = [`${name}-${count}`, nowMs()];
    const beat = await caller.call({
      method: 'POST',
      path: `/v1/agents/${agent}/heartbeat`,
      body: { holder: name },
    });
    const held = heartbeatOutput(beat);
    record(history, agent, { call: 'heartbeat', holder: name, renewal }, held, calledAtMs);
    if (held !== 'held by another')
      append(history.leases, agent, {
        input: { call: 'lapse', renewal },
        output: undefined,
        calledAtMs: calledAtMs + lifeMs,
        returnedAtMs: Infinity,
      });
    if (typeof held === 'object') {
      // One write at once, and one that may come after the lease has passed on.
      for (const pauseMs of [0, random.below(5) === 0 ? lifeMs + 300 : random.below(300)]) {
        await sleep(pauseMs);
        const startedAtMs = nowMs();
        const reply = await caller.call({
          method: 'POST',
          path: '/v1/commit',
          body: fencedWrite(agent, held.fence),
        });
        record(history, agent, { call: 'fenced write', fence: held.fence }, fencedOutput(reply), startedAtMs);
      }
    }
    await sleep(50 + random.below(300));
  }
}

/** All clients use the same key, so all get the same agent. */
async function leaderOf(caller: Caller, round: number): Promise<string> {
  const name = `leader-${round}`;
  const reply = await caller.settle({ method: 'POST', path: '/v1/agents', body: { name } }, name);
  if (reply.outcome !== 'accepted') throw new Error(`POST /v1/agents: ${JSON.stringify(reply)}`);
  return textIn(reply.body, 'agent_id');
}

function fencedWrite(agent: string, fence: number): unknown {
  return {
    checks: [{ check: 'lease', agent_id: agent, fence }],
    operations: [{ op: 'data.set', namespace: 'fenced', key: 'leader', value: fence }],
  };
}

function record(
  history: History,
  agent: string,
  input: LeaseInput,
  output: LeaseOutput | undefined,
  calledAtMs: number,
): void {
  const returnedAtMs = output === undefined ? Infinity : nowMs();
  append(history.leases, agent, { input, output, calledAtMs, returnedAtMs });
}

function heartbeatOutput(reply: Reply): LeaseOutput | undefined {
  if (reply.outcome === 'accepted') return { fence: numberIn(fieldOf(reply.body, 'lease'), 'fence') };
  return reply.outcome === 'refused' && reply.code === 'conflict' ? 'held by another' : undefined;
}

function fencedOutput(reply: Reply): LeaseOutput | undefined {
  if (reply.outcome !== 'accepted') return undefined;
  if (fieldOf(reply.body, 'ok') === true) return 'accepted';
  return stringIn(fieldOf(reply.body, 'failed'), 'code') === 'fenced' ? 'fenced' : undefined;
}
