/** `stoa watch …`: prints the current items, then their changes, until Ctrl-C. */
import type {
  ChangeItem,
  ChangesClient,
  DataTarget,
  DocumentChange,
  RoomChange,
  RoomMessage,
  Stoa,
  Task,
  WatchEvent,
  WatchSettings,
} from '../../client/index.js';
import type { DataDocument } from '../../datastore/model.js';
import type { AgentAnswer } from '../../registry/schemas.js';
import { StoaError } from '../../core/errors.js';
import { type Action, type Options, textOption } from '../definitions/definition.js';
import type { Output } from '../output/output.js';
import { authorText, roomKey } from './messaging/read.js';

/** The text of an item and of a change for people, in parts. `output` shortens times and ids. */
interface Lines<Item, Change> {
  item(item: Item, output: Output): unknown[];
  change(change: Change, output: Output): unknown[];
}

const documentLines: Lines<DataDocument, DocumentChange> = {
  item: ({ key, version, value }) => [key, version, JSON.stringify(value)],
  change: ({ at, kind, key, version }, output) => [output.time(at), kind, key ?? '*', version ?? ''],
};
const agentLines: Lines<AgentAnswer, ChangeItem> = {
  item: ({ agent_id, name, status, presence }, output) => [output.id(agent_id), name, status, presence],
  change: changeParts,
};
const taskLines: Lines<Task, ChangeItem> = {
  item: ({ id, status, claimed_by, command }, output) => [output.id(id), status, claimed_by ?? '-', command],
  change: changeParts,
};
const roomLines: Lines<RoomMessage, RoomChange> = {
  item: messageParts,
  change: (change, output) =>
    change.kind === 'message' ? messageParts(change.message, output) : ['deleted', output.id(change.id)],
};

export const data: Action = watching(
  (stoa, [prefix], options, settings) => stoa.watch({ data: dataTarget(prefix, options), ...settings }),
  documentLines,
);
export const agents: Action = watching(
  (stoa, [id], _options, settings) => stoa.watch({ agents: { id }, ...settings }),
  agentLines,
);
export const tasks: Action = watching(
  (stoa, [project = ''], _options, settings) => stoa.watch({ tasks: { project }, ...settings }),
  taskLines,
);
export const room: Action = watching(
  (stoa, [id = ''], options, settings) => stoa.watch({ room: { id, key: roomKey(options) }, ...settings }),
  roomLines,
);

/** The whole feed. If the server is unreachable, the command says so and waits. */
export const changes: Action = async ({ connect, output }, _args, options) => {
  const { changes: feed } = await (await connect()).client();
  const filter = { since: textOption(options, 'since'), topics: textOption(options, 'topics')?.split(',') };
  await untilInterrupted((signal) =>
    follow(feed, { ...filter, signal }, { output, reconnects: options['reconnect'] !== false }),
  );
};

function dataTarget(prefix: string | undefined, options: Options): DataTarget {
  return { namespace: textOption(options, 'namespace'), prefix, key: textOption(options, 'key') };
}

function watching<Item, Change>(
  open: (
    stoa: Stoa,
    args: readonly string[],
    options: Options,
    settings: WatchSettings,
  ) => AsyncGenerator<WatchEvent<Item, Change>>,
  lines: Lines<Item, Change>,
): Action {
  return async ({ connect, output }, args, options) => {
    const stoa = await (await connect()).client();
    await untilInterrupted(async (signal) => {
      let isLive = false;
      for await (const event of open(stoa, args, options, { since: textOption(options, 'since'), signal })) {
        // People do not need the position of an idle feed.
        if (output.json || event.kind !== 'live' || !isLive) show(output, event, lines);
        isLive = event.kind === 'live' || (isLive && event.kind !== 'resync');
      }
    });
  };
}

/** Ctrl-C and SIGTERM end it with exit status 0. */
export async function untilInterrupted(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const end = (): void => stop.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  try {
    await work(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
  }
}

function show<Item, Change>(
  output: Output,
  event: WatchEvent<Item, Change>,
  lines: Lines<Item, Change>,
): void {
  if (output.json) output.line(event, '');
  else if (event.kind === 'snapshot')
    for (const item of event.items) output.line({}, lineOf(lines.item(item, output)));
  else if (event.kind === 'changes')
    for (const change of event.items) output.line({}, lineOf(lines.change(change, output)));
  else if (event.kind === 'resync') output.say(`Starting again: ${event.detail}`);
  else output.say(liveText(event.position));
}

const liveText = (position: string): string =>
  `Live at ${position}; --since continues from there. End with Ctrl-C.`;

const lineOf = (parts: readonly unknown[]): string => parts.join('  ');

function changeParts({ at, kind, id, version, facts = {} }: ChangeItem, output: Output): unknown[] {
  const told = Object.entries(facts).flatMap(([name, value]) =>
    name === 'project' || value === null ? [] : [`${name}=${value}`],
  );
  return [output.time(at), kind, output.id(id), version ?? '-', ...told];
}

function messageParts(message: RoomMessage, output: Output): unknown[] {
  return [output.time(message.ts), authorText(message), output.id(message.id), message.body];
}

/** In the whole feed a reader needs the domain and the user too. */
function feedParts({ seq, at, domain, kind, user, version, id }: ChangeItem, output: Output): unknown[] {
  return [seq, output.time(at), domain, kind, user ?? '-', version ?? '-', output.id(id)];
}

interface FollowOptions {
  output: Output;
  /** Whether to wait for an unreachable server. A server that never answered is not waited for. */
  reconnects: boolean;
}

async function follow(
  feed: ChangesClient,
  settings: Parameters<ChangesClient['follow']>[0],
  { output, reconnects }: FollowOptions,
): Promise<void> {
  let position: string | undefined;
  let isLost = false;
  const onLost = (reason: unknown): void => {
    if (position === undefined)
      throw reason instanceof StoaError
        ? reason
        : new StoaError('unreachable', 'The server ended the stream.', { cause: reason });
    if (!reconnects)
      throw new StoaError('unreachable', 'The server ended the stream.', {
        cause: reason,
        fix: `Continue with --since ${position}.`,
      });
    if (!isLost) output.say(`The server is unreachable; continuing after ${position} when it is back.`);
    isLost = true;
  };
  for await (const page of feed.follow({ ...settings, positions: true, onLost })) {
    if (position === undefined) output.say(liveText(page.position));
    position = page.position;
    if (isLost) output.say('The server is reachable again.');
    isLost = false;
    for (const change of page.items) output.line(change, lineOf(feedParts(change, output)));
  }
}
