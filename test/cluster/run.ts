/**
 * One run: load and faults for a while, then quiet, then the verdict. A seed repeats the plan of faults and
 * the choices of the clients.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Caller } from './caller.js';
import type { Fleet } from './fleet.js';
import * as load from './load.js';
import { Random } from './random.js';
import { type Stored, findFaults, readStored, readTasks, untilSeen } from './verdict.js';
import { startWatchers } from './watchers.js';

export interface RunOptions {
  readonly seed: number;
  readonly loadSeconds: number;
  readonly killEverySeconds: number;
  /** Told at each phase, so that a run that does not end says where it is. */
  readonly say: (phase: string) => void;
}

export interface RunResult {
  readonly history: load.History;
  readonly stored: Stored;
  readonly seen: ReturnType<typeof startWatchers>['seen'];
  readonly faults: readonly string[];
  /** What happened, in numbers. */
  readonly summary: Readonly<Record<string, number>>;
}

const user = 'ada';
/** After the last fault every task must end: a lease has to lapse, and a worker to come. */
const drainMsMax = 60_000;
/** Time in which a change must have reached every watcher when all is quiet. */
const watchMsMax = 10_000;

const clients = [
  ['register', 4, load.useDocuments],
  ['note', 2, load.writeNotes],
  ['task', 1, load.makeTasks],
  ['post', 2, load.postMessages],
  ['commit', 2, load.commitAll],
  ['lease', 3, load.useLeases],
] as const;
const workers = 3;

export async function runLoad(
  fleet: Fleet,
  { seed, loadSeconds, killEverySeconds, say }: RunOptions,
): Promise<RunResult> {
  const random = new Random(seed);
  const caller = new Caller(fleet.balancerUrl, fleet.token, user);
  const operator = new Caller(fleet.balancerUrl, fleet.token, null);
  const history = load.emptyHistory();
  const watchers = startWatchers(fleet, '0');
  const places = await load.preparePlaces(caller, user);
  const endMs = Date.now() + loadSeconds * 1_000;
  let isDrained = false;
  const client = (name: string, isOver: () => boolean): load.Client => ({
    name,
    caller,
    history,
    places,
    random: random.branch(),
    isOver,
  });
  const working = Array.from({ length: workers }, (_, index) =>
    load.workOnTasks(client(`worker-${index}`, () => isDrained)),
  );
  const loading = clients.flatMap(([name, count, run]) =>
    Array.from({ length: count }, (_, index) => run(client(`${name}-${index}`, () => Date.now() >= endMs))),
  );
  const kills = await breakThings(fleet, random.branch(), endMs, killEverySeconds);
  say('The faults are over.');
  await Promise.all(loading);
  await fleet.ready();
  say('The load is over.');
  await drain(caller, places, say);
  isDrained = true;
  await Promise.all(working);
  say('The workers are done.');

  const stored = await readStored(caller, operator, places);
  say(`What is stored is read: ${stored.feed.length} changes.`);
  await untilSeen(stored.feed, watchers.seen, watchMsMax);
  await watchers.stop();
  say('The watchers are done.');
  const faults = [
    ...findFaults(history, stored, watchers.seen),
    ...caller.broken,
    ...operator.broken,
    ...watchers.ended,
  ];
  return {
    history,
    stored,
    seen: watchers.seen,
    faults,
    summary: summaryOf(history, stored, kills, watchers.lost()),
  };
}

/** Waits until every task is completed, as long as the number of open tasks falls. */
async function drain(caller: Caller, places: load.Places, say: RunOptions['say']): Promise<void> {
  let [least, fellAtMs] = [Infinity, Date.now()];
  while (least > 0 && Date.now() < fellAtMs + drainMsMax) {
    const tasks = await readTasks(caller, places);
    const open = tasks.filter(({ status }) => status !== 'completed').length;
    if (open < least) {
      say(`${open} of ${tasks.length} tasks are open.`);
      [least, fellAtMs] = [open, Date.now()];
    }
    await sleep(Math.min(5_000, 200 + tasks.length));
  }
}

/**
 * Kills a server every few seconds, and restarts PostgreSQL and Redis once each. Answers how many servers
 * were killed.
 */
async function breakThings(
  fleet: Fleet,
  random: Random,
  endMs: number,
  everySeconds: number,
): Promise<number> {
  const startMs = Date.now();
  const at = (share: number): number => startMs + (endMs - startMs) * share;
  const restarts = [
    { atMs: at(0.3), restart: fleet.restartPostgres },
    { atMs: at(0.65), restart: fleet.restartRedis },
  ];
  let kills = 0;
  for (;;) {
    const nextMs = Date.now() + everySeconds * 1_000 * (0.5 + random.next());
    if (nextMs > endMs) break;
    await sleep(nextMs - Date.now());
    await fleet.replace(random.below(fleet.serverUrls.length));
    kills += 1;
    if ((restarts[0]?.atMs ?? Infinity) < Date.now()) await restarts.shift()?.restart();
  }
  for (const { restart } of restarts) await restart();
  return kills;
}

function summaryOf(
  history: load.History,
  stored: Stored,
  kills: number,
  connectionsLost: number,
): Readonly<Record<string, number>> {
  const writes = [history.notes, history.tasks, history.commits, ...history.posts.values()].flat();
  const calls = [...history.documents.values(), ...history.leases.values()].flat();
  return {
    kills,
    connectionsLost,
    documentCalls: [...history.documents.values()].flat().length,
    leaseCalls: [...history.leases.values()].flat().length,
    writesAccepted: writes.filter(({ outcome }) => outcome === 'accepted').length,
    outcomesUnknown:
      writes.filter(({ outcome }) => outcome === 'unknown').length +
      calls.filter(({ output, input }) => output === undefined && input.call !== 'lapse').length,
    tasks: stored.tasks.length,
    claims: history.claims.length,
    messages: stored.messages.length,
    changes: stored.feed.length,
  };
}
