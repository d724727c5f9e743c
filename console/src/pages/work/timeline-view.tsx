/** The timeline of a task: the whole of it in one line, then each event, and what holders did meanwhile. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { useLoaded } from '../../load.js';
import type { ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { AgentName } from '../../ui/agent-name.js';
import { plural, visible } from '../../ui/format.js';
import { Loading, Problem } from '../../ui/parts.js';
import { Ago, clockText, durationText, exactText, useClock } from '../../ui/time.js';
import { historyOf } from '../../live/history.js';
import { useRoomNames } from '../../live/room-names.js';
import { useAuthors } from '../rooms/authors.js';
import { type Deed, type Stretch, type TimelineItem, stretchesOf, timelineOf } from './timeline.js';

/** Profiles that are read to know which messages a holder posted. */
const speakersMax = 24;

export function Timeline({ task }: { task: ListedTask }) {
  const { view, feed } = useWorld();
  const sinceMs = Date.parse(task.created_at) - 1_000;
  const stored = useLoaded(
    async (signal) => {
      const own = await historyOf(view.stoa, { id: task.id }, signal, sinceMs);
      const others = await historyOf(
        view.stoa,
        { topics: ['data', 'message.posted'] },
        signal,
        Math.max(sinceMs, Date.now() - deedsMsMax),
      );
      return { own, others };
    },
    [task.id, view.user],
  );
  const [fresh, setFresh] = useState<readonly ChangeItem[]>([]);
  useEffect(
    () =>
      feed.listen((changes) => {
        const near = changes.filter(
          ({ id, agent, kind }) =>
            id === task.id || kind === 'message.posted' || (agent !== null && agent === task.claimed_by),
        );
        if (near.length > 0) setFresh((before) => [...before, ...near].slice(-freshMax));
      }),
    [feed, task.id, task.claimed_by],
  );
  const { own, others } = useMemo(() => {
    const before = stored.value ?? { own: { items: [] }, others: { items: [] } };
    const known = new Set([...before.own.items, ...before.others.items].map(({ seq, id }) => `${seq} ${id}`));
    const later = fresh.filter(({ seq, id }) => !known.has(`${seq} ${id}`));
    return {
      own: [...before.own.items, ...later.filter(({ id }) => id === task.id)],
      others: [...before.others.items, ...later.filter(({ id }) => id !== task.id)],
    };
  }, [stored.value, fresh, task.id]);
  const speakers = useAuthors(
    others
      .flatMap(({ facts }) => (typeof facts?.['from'] === 'string' ? [facts['from']] : []))
      .slice(-speakersMax),
  );
  const rooms = useRoomNames();
  const items = useMemo(
    () => timelineOf(task, own, others, { speakers, rooms }),
    [own, others, task, speakers, rooms],
  );
  return (
    <section class="timeline" aria-label="Timeline">
      <h3>Timeline</h3>
      <Problem failure={stored.failure} onRetry={stored.reload} />
      {stored.isLoading ? <Loading rows={3} /> : <Story task={task} own={own} items={items} />}
    </section>
  );
}

const freshMax = 500;
/** How far back the deeds of holders are read. */
const deedsMsMax = 24 * 3_600_000;

function Event({ item }: { item: Extract<TimelineItem, { kind: 'event' }> }) {
  return (
    <div class="timeline-event">
      <span class={`timeline-dot ${item.tone}`} />
      <span>{visible(item.text)}</span>
      <Ago at={item.atMs} />
    </div>
  );
}

/** The time of one holder as a bar on the scale of the whole task; its heartbeats are folded into the bar. */
function Held({ item, scale }: { item: Extract<TimelineItem, { kind: 'held' }>; scale: Scale }) {
  const toMs = item.toMs ?? scale.toMs;
  const hidden = item.deeds.length - deedsShown;
  return (
    <div class="timeline-held">
      <p class="held-line">
        <span>
          <strong>
            <AgentName name={item.holder} />
          </strong>{' '}
          <span class="muted">
            {item.toMs === null ? 'has held it' : 'held it'} for {durationText(toMs - item.fromMs)}
          </span>
        </span>
        <Ago at={item.fromMs} />
      </p>
      <div class="held-track">
        <span
          class={`held-bar ${item.toMs === null ? 'open' : ''}`}
          title={`${exactText(item.fromMs)} to ${exactText(toMs)}`}
          style={spanOn(scale, item.fromMs, toMs)}
        />
        <Deeds deeds={item.deeds} scale={scale} />
      </div>
      {item.deeds.slice(-deedsShown).map(({ atMs, text, to, isMessage }, at) => (
        <p class="deed" key={at}>
          <span class={`deed-mark ${isMessage ? 'said' : 'wrote'}`} />
          <a class="clip" href={to}>
            {visible(text)}
          </a>{' '}
          <Ago at={atMs} />
        </p>
      ))}
      {hidden > 0 ? <p class="deed">and {plural(hidden, 'earlier one')}</p> : null}
    </div>
  );
}

/** What a holder wrote and said. */
function Deeds({ deeds, scale }: { deeds: readonly Deed[]; scale: Scale }) {
  return (
    <>
      {deeds.map(({ atMs, text, isMessage }, at) => (
        <span
          key={at}
          class={`deed-mark ${isMessage ? 'said' : 'wrote'}`}
          title={`${visible(text)}, ${exactText(atMs)}`}
          style={{ left: shareOf(scale, atMs) }}
        />
      ))}
    </>
  );
}

interface Scale {
  readonly fromMs: number;
  readonly toMs: number;
}

function shareOf({ fromMs, toMs }: Scale, atMs: number): string {
  return `${Math.min(100, Math.max(0, ((atMs - fromMs) / (toMs - fromMs)) * 100)).toFixed(2)}%`;
}

function spanOn(scale: Scale, fromMs: number, toMs: number): Record<string, string> {
  const width = ((toMs - fromMs) / (scale.toMs - scale.fromMs)) * 100;
  return { left: shareOf(scale, fromMs), width: `${width.toFixed(2)}%` };
}

const deedsShown = 6;

const stateWords: Readonly<Record<Stretch['state'], string>> = {
  waiting: 'waited',
  held: 'held',
  asking: 'asked a person',
};

/** From the creation of the task to its end, or to now: the whole in one line, then each part on the same scale. */
function Story({
  task,
  own,
  items,
}: {
  task: ListedTask;
  own: readonly ChangeItem[];
  items: readonly TimelineItem[];
}) {
  const now = useClock();
  const stretches = stretchesOf(task, own, now);
  const fromMs = Date.parse(task.created_at);
  const scale = { fromMs, toMs: Math.max(stretches.at(-1)?.toMs ?? now, fromMs + 1_000) };
  return (
    <>
      <Lane task={task} stretches={stretches} scale={scale} />
      <ol>
        {items.map((item, at) => (
          <li key={at}>
            {item.kind === 'held' ? <Held item={item} scale={scale} /> : <Event item={item} />}
          </li>
        ))}
      </ol>
    </>
  );
}

/** A shorter stretch cannot be seen. */
const seenShare = 0.01;

/** What the task did when: waiting, held, asking. */
function Lane({ task, stretches, scale }: { task: ListedTask; stretches: readonly Stretch[]; scale: Scale }) {
  const words = ({ state, holder, ...span }: Stretch): string =>
    `${stateWords[state]}${holder === undefined ? '' : ` (${visible(holder)})`} for ${durationText(span.toMs - span.fromMs)}`;
  const spanMs = scale.toMs - scale.fromMs;
  const seen = stretches.filter(({ fromMs, toMs }) => toMs - fromMs > spanMs * seenShare);
  const states = new Set(seen.map(({ state }) => state));
  return (
    <div class="lane" role="img" aria-label={`Timeline: ${stretches.map(words).join(', ')}`}>
      <div class="lane-track">
        {stretches.map((stretch) => (
          <span
            key={stretch.fromMs}
            class={`lane-stretch ${stretch.state}`}
            title={`${words(stretch)}, from ${exactText(stretch.fromMs)}`}
            style={spanOn(scale, stretch.fromMs, stretch.toMs)}
          />
        ))}
        <span class={`lane-end ${task.status}`} style={{ left: shareOf(scale, scale.toMs) }} />
      </div>
      <p class="chart-scale">
        <span>{clockText(scale.fromMs, spanMs)}</span>
        <span class="lane-legend">
          {[...states].map((state) => (
            <span key={state} class={state}>
              {stateWords[state]}
            </span>
          ))}
        </span>
        <span>{task.completed_at === null ? 'now' : clockText(scale.toMs, spanMs)}</span>
      </p>
    </div>
  );
}
