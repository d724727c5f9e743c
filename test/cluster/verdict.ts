/** Reads what is stored when the load is over, and compares it with the history. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, fieldOf, itemsIn, numberIn, stringIn, textIn } from './caller.js';
import {
  type SeenChange,
  type StoredTask,
  commitFaults,
  counterFaults,
  feedFaults,
  orderFaults,
  taskFaults,
  watcherFaults,
  writeFaults,
} from './checker/history.js';
import { type Call, type Model, findViolation } from './checker/linearizable.js';
import { documentModel, leaseModel, withoutUnreadValues } from './checker/models.js';
import type { DocumentCall, History, Places } from './load.js';

const openStatuses: ReadonlySet<string> = new Set(['pending', 'running']);

export interface Stored {
  readonly registers: ReadonlyMap<string, { version: number; value: string }>;
  readonly notes: readonly string[];
  readonly commits: readonly string[];
  readonly tasks: readonly (StoredTask & { command: string })[];
  /** Oldest first. */
  readonly messages: readonly string[];
  readonly feed: readonly SeenChange[];
  readonly counters: { what: string; counter: number; contents: number }[];
}

export async function readStored(caller: Caller, operator: Caller, places: Places): Promise<Stored> {
  const documents = async (namespace: string): Promise<{ key: string; version: number; value: string }[]> =>
    (await pages(caller, `/v1/data/${namespace}?values=true&limit=1000`)).map((item) => ({
      key: textIn(item, 'key'),
      version: numberIn(item, 'version'),
      value: String(fieldOf(item, 'value')),
    }));
  const [registers, notes, commits] = [
    await documents('registers'),
    await documents('notes'),
    await documents('commits'),
  ];
  const tasks = await readTasks(caller, places);
  const messages = await readMessages(caller, places);
  const workspace = await caller.read(`/v1/workspaces/${places.workspace}`);
  const namespaces = new Map(
    (await pages(caller, '/v1/data?limit=100')).map((item) => [textIn(item, 'namespace'), item]),
  );
  const channels = itemsIn(await caller.read('/channels?limit=100'), 'channels');
  const channel = channels.find((item) => stringIn(item, 'id') === places.room);
  return {
    registers: new Map(registers.map(({ key, ...document }) => [key, document])),
    notes: notes.map(({ key }) => key),
    commits: commits.map(({ key }) => key),
    tasks,
    messages,
    feed: await readFeed(operator),
    counters: [
      ...Object.entries({ registers, notes, commits }).map(([namespace, { length }]) => ({
        what: `documents in ${namespace}`,
        counter: namespaces.has(namespace) ? numberIn(namespaces.get(namespace), 'count') : 0,
        contents: length,
      })),
      {
        what: 'active tasks',
        counter: numberIn(workspace, 'active_tasks'),
        contents: tasks.filter(({ status }) => openStatuses.has(status)).length,
      },
      { what: 'messages', counter: numberIn(channel, 'message_count'), contents: messages.length },
    ],
  };
}

export async function readTasks(caller: Caller, { session }: Places): Promise<Stored['tasks']> {
  return (await pages(caller, `/v1/sessions/${session}/tasks?limit=100`)).map((item) => ({
    id: textIn(item, 'id'),
    command: textIn(item, 'command'),
    status: textIn(item, 'status'),
    output: stringIn(item, 'output') ?? null,
  }));
}

async function readMessages(caller: Caller, { room }: Places): Promise<string[]> {
  const messages: string[] = [];
  for (let after = 0; ;) {
    const page = await caller.read(`/room/${room}?limit=100&after=${after}`);
    const items = itemsIn(page, 'messages')
      .map((item) => ({ ts: numberIn(item, 'ts'), body: textIn(item, 'body') }))
      .toSorted((one, other) => one.ts - other.ts);
    messages.push(...items.map(({ body }) => body));
    after = items.at(-1)?.ts ?? after;
    if (items.length === 0) return messages;
  }
}

async function readFeed(operator: Caller): Promise<SeenChange[]> {
  const feed: SeenChange[] = [];
  for (let since: string | undefined; ;) {
    const page = await operator.read(
      `/v1/changes?limit=1000${since === undefined ? '' : `&since=${encodeURIComponent(since)}`}`,
    );
    for (const item of itemsIn(page)) {
      const version = fieldOf(item, 'version');
      feed.push({
        seq: numberIn(item, 'seq'),
        kind: textIn(item, 'kind'),
        id: textIn(item, 'id'),
        version: typeof version === 'number' ? version : null,
      });
    }
    since = stringIn(page, 'next_cursor');
    if (since === undefined) return feed;
  }
}

async function pages(caller: Caller, path: string): Promise<unknown[]> {
  const items: unknown[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await caller.read(
      cursor === undefined ? path : `${path}&cursor=${encodeURIComponent(cursor)}`,
    );
    items.push(...itemsIn(page));
    cursor = stringIn(page, 'next_cursor');
    if (cursor === undefined) return items;
  }
}

/** Watchers read on while this waits for them. */
export async function untilSeen(
  feed: readonly SeenChange[],
  seen: ReadonlyMap<string, readonly SeenChange[]>,
  msMax: number,
): Promise<void> {
  const untilMs = Date.now() + msMax;
  while ([...seen.values()].some(({ length }) => length < feed.length) && Date.now() < untilMs)
    await sleep(50);
}

/** Every fault in words; none where all that was promised holds. */
export function findFaults(
  history: History,
  stored: Stored,
  seen: ReadonlyMap<string, readonly SeenChange[]>,
): string[] {
  const documentKeys = new Set([...history.documents.keys(), ...stored.registers.keys()]);
  const taskNames = stored.tasks.map(({ command }) => command);
  const parts = new Map([
    ['document', stored.commits],
    ['task', taskNames.filter(isCommit)],
    ['message', stored.messages.filter(isCommit)],
  ]);
  const plainMessages = stored.messages.filter((name) => !isCommit(name));
  const posted = stored.feed.filter(({ kind }) => kind === 'message.posted').map(({ id }) => id);
  return [
    ...[...documentKeys].flatMap((key) => {
      const calls = history.documents.get(key) ?? [];
      const found = stored.registers.get(key) ?? { version: 0, value: null };
      const last = { calledAtMs: Number.MAX_SAFE_INTEGER - 1, returnedAtMs: Number.MAX_SAFE_INTEGER };
      const whole: DocumentCall[] = [...calls, { input: { call: 'read' }, output: { found }, ...last }];
      return violationOf(`Document ${key}`, documentModel, withoutUnreadValues(whole));
    }),
    ...[...history.leases].flatMap(([agent, calls]) =>
      violationOf(`The lease of ${agent}`, leaseModel, calls),
    ),
    ...writeFaults('Document', history.notes, stored.notes),
    ...writeFaults(
      'Task',
      history.tasks,
      taskNames.filter((name) => !isCommit(name)),
    ),
    ...taskFaults(history.claims, history.reports, stored.tasks),
    ...writeFaults('Message', [...history.posts.values()].flat(), plainMessages),
    ...[...history.posts].flatMap(([name, writes]) =>
      orderFaults(
        `Messages of ${name}`,
        writes.filter(({ outcome }) => outcome === 'accepted').map((write) => write.name),
        plainMessages,
      ),
    ),
    ...[...parts].flatMap(([part, names]) => writeFaults(`Commit (${part})`, history.commits, names)),
    ...commitFaults(parts),
    ...counterFaults([
      ...stored.counters,
      {
        what: 'message changes in the feed',
        counter: new Set(posted).size,
        contents: stored.messages.length,
      },
    ]),
    ...(new Set(posted).size === posted.length ? [] : ['The feed has a message twice.']),
    ...feedFaults(stored.feed),
    ...watcherFaults(stored.feed, upTo(stored.feed.at(-1)?.seq ?? 0, seen)),
  ];
}

/** Leases lapse after the feed was read, and watchers see that too. */
function upTo(
  seqMax: number,
  seen: ReadonlyMap<string, readonly SeenChange[]>,
): Map<string, readonly SeenChange[]> {
  return new Map([...seen].map(([name, changes]) => [name, changes.filter(({ seq }) => seq <= seqMax)]));
}

function violationOf<State, Input, Output>(
  what: string,
  model: Model<State, Input, Output>,
  calls: readonly Call<Input, Output>[],
): string[] {
  const violation = findViolation(model, calls);
  if (violation === undefined) return [];
  const { ordered, stuckAt } = violation;
  const shown = (some: readonly Call<Input, Output>[]): string =>
    some.map((call) => `    ${JSON.stringify(call)}`).join('\n');
  return [
    `${what} is not linearizable: after\n${shown(ordered.slice(-5))}\n  none of these could come next:\n${shown(stuckAt)}`,
  ];
}

function isCommit(name: string): boolean {
  return name.startsWith('commit-');
}
