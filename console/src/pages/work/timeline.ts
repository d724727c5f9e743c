/** What happened to a task, from the change feed: its own changes, and what its holder did meanwhile. */
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import type { ListedTask } from '../../live/world.js';
import { placeOf } from '../places.js';
import { type Speaker, keyText } from '../../live/activity.js';

export type TimelineItem =
  | {
      readonly kind: 'event';
      readonly atMs: number;
      readonly text: string;
      readonly tone: 'calm' | 'good' | 'bad' | 'warn';
    }
  /** A holder had the task; its heartbeats are this bar. */
  | {
      readonly kind: 'held';
      readonly fromMs: number;
      readonly toMs: number | null;
      readonly holder: string;
      readonly deeds: readonly Deed[];
    };

export interface Deed {
  readonly atMs: number;
  readonly text: string;
  readonly isMessage: boolean;
  readonly to: string | undefined;
}

/** The agents of identities, and the names of rooms. */
export interface Names {
  readonly speakers: ReadonlyMap<string, Speaker>;
  readonly rooms: ReadonlyMap<string, string>;
}

/** What a task was doing for a time. */
export interface Stretch {
  readonly state: 'waiting' | 'held' | 'asking';
  readonly fromMs: number;
  readonly toMs: number;
  readonly holder: string | undefined;
}

const words: Readonly<Record<string, readonly [text: string, tone: 'calm' | 'good' | 'bad' | 'warn']>> = {
  'task.created': ['created', 'calm'],
  'task.updated': ['changed', 'calm'],
  'task.ready': ['ready: nothing to wait for any more', 'calm'],
  'task.returned': ['returned to the queue', 'warn'],
  'task.retried': ['retried: back in the queue with all attempts', 'calm'],
  'task.completed': ['completed', 'good'],
  'task.failed': ['failed', 'bad'],
  'task.cancelled': ['cancelled', 'calm'],
  'task.input_required': ['asked a person', 'warn'],
  'task.running': ['answered; the holder goes on', 'good'],
  'task.answered': ['answered', 'good'],
};

const ends = new Set(['task.returned', 'task.completed', 'task.failed', 'task.cancelled', 'task.deleted']);

/** `own` are the changes of the task, `others` the changes of everything while it was held. Both oldest first. */
export function timelineOf(
  task: ListedTask,
  own: readonly ChangeItem[],
  others: readonly ChangeItem[],
  names: Names,
): TimelineItem[] {
  const items: TimelineItem[] = [];
  if (!own.some(({ kind }) => kind === 'task.created'))
    items.push({ kind: 'event', atMs: Date.parse(task.created_at), text: 'created', tone: 'calm' });
  let held: { fromMs: number; holder: string } | undefined;
  const close = (toMs: number | null): void => {
    if (held === undefined) return;
    items.push({
      kind: 'held',
      ...held,
      toMs,
      deeds: deedsOf(others, names, held.holder, held.fromMs, toMs ?? Infinity),
    });
    held = undefined;
  };
  for (const { kind, at, facts } of own) {
    const atMs = Date.parse(at);
    if (ends.has(kind)) close(atMs);
    if (kind === 'task.claimed') {
      close(atMs);
      held = { fromMs: atMs, holder: String(facts?.['holder'] ?? task.claimed_by ?? '') };
    } else {
      const [text, tone] = words[kind] ?? [kind.replace('task.', ''), 'calm'];
      items.push({ kind: 'event', atMs, text, tone });
    }
  }
  if (held === undefined && own.length === 0 && task.started_at !== null && task.claimed_by !== null)
    held = { fromMs: Date.parse(task.started_at), holder: task.claimed_by };
  close(task.completed_at === null ? null : Date.parse(task.completed_at));
  // A bar comes before what happened while it lasted.
  return items.toSorted((a, b) => startOf(a) - startOf(b));
}

function startOf(item: TimelineItem): number {
  return item.kind === 'held' ? item.fromMs : item.atMs;
}

const stateAfter: Readonly<Record<string, Stretch['state'] | 'ended'>> = {
  'task.claimed': 'held',
  'task.input_required': 'asking',
  'task.answered': 'held',
  'task.returned': 'waiting',
  'task.retried': 'waiting',
  'task.completed': 'ended',
  'task.failed': 'ended',
  'task.cancelled': 'ended',
};

/** From the creation to the end of the task, or to now, without the times when it had ended. */
export function stretchesOf(task: ListedTask, own: readonly ChangeItem[], nowMs: number): Stretch[] {
  const found: Stretch[] = [];
  let state: Stretch['state'] | 'ended' = 'waiting';
  let fromMs = Date.parse(task.created_at);
  let holder: string | undefined;
  const close = (toMs: number): void => {
    if (state !== 'ended' && toMs > fromMs) found.push({ state, fromMs, toMs, holder });
  };
  for (const { kind, at, facts, version } of own) {
    // An answer to a task that nobody holds returns it to the queue.
    const isBack = kind === 'task.answered' && version === task.version && task.status === 'pending';
    const next = isBack ? 'waiting' : stateAfter[kind];
    if (next === undefined) continue;
    const atMs = Date.parse(at);
    close(atMs);
    [state, fromMs] = [next, atMs];
    if (kind === 'task.claimed') holder = String(facts?.['holder'] ?? '');
    else if (next === 'waiting') holder = undefined;
  }
  close(nowMs);
  return found;
}

const deedsMax = 50;

function deedsOf(
  changes: readonly ChangeItem[],
  { speakers, rooms }: Names,
  holder: string,
  fromMs: number,
  toMs: number,
): Deed[] {
  return changes
    .filter(({ at }) => Date.parse(at) >= fromMs && Date.parse(at) <= toMs)
    .filter((change) => isBy(change, holder, speakers))
    .slice(-deedsMax)
    .map((change) => ({
      atMs: Date.parse(change.at),
      text:
        change.kind === 'message.posted'
          ? `posted in ${rooms.get(String(change.facts?.['room'])) ?? 'a room'}`
          : `${change.kind === 'document.deleted' ? 'deleted' : 'wrote'} ${keyText(change)}`,
      isMessage: change.kind === 'message.posted',
      to: placeOf(change),
    }));
}

/** A message names the identity of its author; the server keeps the identities of agents that use a token. */
function isBy(change: ChangeItem, holder: string, speakers: ReadonlyMap<string, Speaker>): boolean {
  if (change.kind !== 'message.posted') return change.domain === 'data' && change.agent === holder;
  const speaker = speakers.get(String(change.facts?.['from']));
  return change.agent === holder || (speaker?.isKept === true && speaker.name === holder);
}
