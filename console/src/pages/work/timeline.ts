/** What happened to a task, from the change feed: its own changes, and what its holder did meanwhile. */
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import type { ListedTask } from '../../live/world.js';
import { keyText } from '../fleet/model.js';

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
}

const words: Readonly<Record<string, readonly [text: string, tone: 'calm' | 'good' | 'bad' | 'warn']>> = {
  'task.created': ['created', 'calm'],
  'task.updated': ['changed', 'calm'],
  'task.ready': ['ready: nothing to wait for any more', 'calm'],
  'task.returned': ['returned to the queue', 'warn'],
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
      deeds: deedsOf(others, held.holder, held.fromMs, toMs ?? Infinity),
    });
    held = undefined;
  };
  for (const { kind, at, facts } of own) {
    if (ends.has(kind)) close(at);
    if (kind === 'task.claimed') {
      close(at);
      held = { fromMs: at, holder: String(facts?.['holder'] ?? task.claimed_by ?? '') };
    } else {
      const [text, tone] = words[kind] ?? [kind.replace('task.', ''), 'calm'];
      items.push({ kind: 'event', atMs: at, text, tone });
    }
  }
  if (held === undefined && own.length === 0 && task.started_at !== null && task.claimed_by !== null)
    held = { fromMs: Date.parse(task.started_at), holder: task.claimed_by };
  close(task.completed_at === null ? null : Date.parse(task.completed_at));
  return items;
}

const deedsMax = 50;

function deedsOf(changes: readonly ChangeItem[], holder: string, fromMs: number, toMs: number): Deed[] {
  return changes
    .filter(
      ({ agent, at, kind, domain }) =>
        agent === holder && at >= fromMs && at <= toMs && (domain === 'data' || kind === 'message.posted'),
    )
    .slice(-deedsMax)
    .map((change) => ({
      atMs: change.at,
      text:
        change.kind === 'message.posted'
          ? `said something in ${String(change.facts?.['room'] ?? change.id)}`
          : `${change.kind === 'document.deleted' ? 'deleted' : 'wrote'} ${keyText(change)}`,
      isMessage: change.kind === 'message.posted',
    }));
}
