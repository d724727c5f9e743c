/** How many agents were present, over the last hour or the last day. */
import { useEffect, useMemo } from 'preact/hooks';
import { type Presence, presenceMsMax, presenceOver } from '../../live/presence.js';
import { useWorld } from '../../live/use-world.js';
import type { AgentAnswer } from '../../live/world.js';
import { useObservable } from '../../observable.js';
import { route, setQuery } from '../../router.js';
import { Chart } from '../../ui/chart.js';
import { countText, plural } from '../../ui/format.js';
import { Tabs } from '../../ui/parts.js';
import { useClock } from '../../ui/time.js';

type Past = 'hour' | 'day';

const pastMs: Readonly<Record<Past, number>> = { hour: 3_600_000, day: presenceMsMax };
/** A chart that begins a moment ago would show one step over its whole width. */
const shownMsMin = 60_000;
const everyMs = 5_000;
/** More points than this cannot be told apart. */
const pointsMax = 800;

export function PresenceChart({ agents }: { agents: readonly AgentAnswer[] }) {
  const { presence: log } = useWorld();
  const past: Past = useObservable(route).query.get('past') === 'day' ? 'day' : 'hour';
  const round = useObservable(log.round);
  useEffect(() => log.use(), [log]);
  const now = Math.floor(useClock() / everyMs) * everyMs;
  const present = agents.filter(({ presence }) => presence === 'live').length;
  const { points, marks, fromMs } = useMemo(() => {
    const found = presenceOver(log.changes, present, Date.now());
    const oldestMs = Math.max(now - pastMs[past], found[0]?.atMs ?? 0);
    const shown = found.filter(({ atMs }) => atMs >= oldestMs);
    const before = found.findLast(({ atMs }) => atMs < oldestMs);
    return {
      points: thinned(before === undefined ? shown : [{ ...before, atMs: oldestMs }, ...shown]),
      marks: shown.flatMap(({ atMs, isLoss }) => (isLoss ? [atMs] : [])),
      fromMs: Math.min(oldestMs, now - shownMsMin),
    };
  }, [round, present, now, past]);
  return (
    <Chart
      title="Agents present"
      points={points}
      marks={marks.slice(-pointsMax)}
      fromMs={fromMs}
      toMs={Math.max(now, points.at(-1)?.atMs ?? now)}
      text={countText}
      isStepped
      note={marks.length === 0 ? undefined : `${plural(marks.length, 'agent')} lost`}
    >
      <Tabs<Past>
        label="How far back"
        names={[
          ['hour', '1 h'],
          ['day', '24 h'],
        ]}
        chosen={past}
        onChoose={(name) => setQuery({ past: name === 'hour' ? undefined : name })}
      />
    </Chart>
  );
}

/** Every n-th point, and always the last. */
function thinned(points: readonly Presence[]): { atMs: number; value: number }[] {
  const every = Math.ceil(points.length / pointsMax);
  return points
    .filter((_, at) => at % every === 0 || at === points.length - 1)
    .map(({ atMs, present }) => ({ atMs, value: present }));
}
