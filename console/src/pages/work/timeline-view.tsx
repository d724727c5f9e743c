/** The timeline of a task: the whole of it in one line, then each event, and what holders did meanwhile. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { useLoaded } from '../../load.js';
import type { ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { visible } from '../../ui/format.js';
import { Loading, Problem } from '../../ui/parts.js';
import { Ago, clockText, durationText, exactText, useClock } from '../../ui/time.js';
import { historyOf } from '../../live/history.js';
import { useRoomNames } from '../../live/room-names.js';
import { useAuthors } from '../rooms/authors.js';
import { type Stretch, type TimelineItem, stretchesOf, timelineOf } from './timeline.js';

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
      {stored.failure === undefined ? null : <Problem failure={stored.failure} onRetry={stored.reload} />}
      {stored.isLoading ? <Loading rows={3} /> : <Lane task={task} own={own} items={items} />}
      <ol>
        {items.map((item, at) => (
          <li key={at}>{item.kind === 'held' ? <Held item={item} /> : <Event item={item} />}</li>
        ))}
      </ol>
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

/** The time of one holder as a bar; what the holder wrote and said meanwhile is on it and below it. */
function Held({ item }: { item: Extract<TimelineItem, { kind: 'held' }> }) {
  const now = useClock();
  const toMs = item.toMs ?? now;
  const span = Math.max(1, toMs - item.fromMs);
  return (
    <div class="timeline-held">
      <p>
        <strong>{visible(item.holder)}</strong>{' '}
        <span class="muted">
          {item.toMs === null ? 'has held it' : 'held it'} for {durationText(span)}
        </span>
      </p>
      <div
        class={`held-bar ${item.toMs === null ? 'open' : ''}`}
        title={`${exactText(item.fromMs)} to ${exactText(toMs)}`}
      >
        {item.deeds.map(({ atMs, text, isMessage }, at) => (
          <span
            key={at}
            class={isMessage ? 'said' : 'wrote'}
            title={`${visible(text)}, ${exactText(atMs)}`}
            style={{ left: `calc((100% - 8px) * ${((atMs - item.fromMs) / span).toFixed(3)})` }}
          />
        ))}
      </div>
      {item.deeds.slice(-deedsShown).map(({ atMs, text, to }, at) => (
        <p class="deed" key={at}>
          <a class="clip" href={to}>
            {visible(text)}
          </a>{' '}
          <Ago at={atMs} />
        </p>
      ))}
    </div>
  );
}

const deedsShown = 6;

const stateWords: Readonly<Record<Stretch['state'], string>> = {
  waiting: 'waited',
  held: 'held',
  asking: 'asked a person',
};

/** The task from its creation to its end, or to now: waiting, held, asking, and what its holders did. */
function Lane({
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
  const toMs = Math.max(stretches.at(-1)?.toMs ?? now, fromMs + 1_000);
  const share = (atMs: number): string =>
    `${Math.min(100, Math.max(0, ((atMs - fromMs) / (toMs - fromMs)) * 100)).toFixed(2)}%`;
  const words = ({ state, holder, ...span }: Stretch): string =>
    `${stateWords[state]}${holder === undefined ? '' : ` (${visible(holder)})`} for ${durationText(span.toMs - span.fromMs)}`;
  const deeds = items.flatMap((item) => (item.kind === 'held' ? item.deeds : []));
  return (
    <div class="lane" role="img" aria-label={`Timeline: ${stretches.map(words).join(', ')}`}>
      <div class="lane-track">
        {stretches.map((stretch) => (
          <span
            key={stretch.fromMs}
            class={`lane-stretch ${stretch.state}`}
            title={`${words(stretch)}, from ${exactText(stretch.fromMs)}`}
            style={{
              left: share(stretch.fromMs),
              width: `${(((stretch.toMs - stretch.fromMs) / (toMs - fromMs)) * 100).toFixed(2)}%`,
            }}
          />
        ))}
        {deeds.map(({ atMs, text, isMessage }, at) => (
          <span
            key={at}
            class={`lane-deed ${isMessage ? 'said' : 'wrote'}`}
            title={`${visible(text)}, ${exactText(atMs)}`}
            style={{ left: share(atMs) }}
          />
        ))}
        <span class={`lane-end ${task.status}`} style={{ left: share(toMs) }} />
      </div>
      <p class="chart-scale">
        <span>{clockText(fromMs)}</span>
        <span>{durationText(toMs - fromMs)}</span>
        <span>{task.completed_at === null ? 'now' : clockText(toMs)}</span>
      </p>
    </div>
  );
}
