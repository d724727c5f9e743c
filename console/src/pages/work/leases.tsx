/** The leases of held tasks. Heartbeats are not in the feed, so the tasks that somebody holds are listed again. */
import { useEffect } from 'preact/hooks';
import type { ListedTask } from '../../live/world.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useWorld } from '../../live/use-world.js';
import { durationText, exactText, useClock } from '../../ui/time.js';

const everyMs = 10_000;
const soonMs = 1_000;
const pageItems = 1_000;

/** Reads the leases again and again, and soon after a claim. */
export function useTaskLeases(): void {
  const { view, tasks } = useWorld();
  const claims = useThrottledRound(({ kind }) => kind === 'task.claimed' || kind === 'task.answered', soonMs);
  useEffect(() => {
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      if (document.hidden) return;
      try {
        for (const status of ['running', 'input_required'] as const) {
          const { items } = await view.stoa.tasks.list({ status, limit: pageItems, signal: stop.signal });
          // A task that changed since then has a newer version here.
          const isCurrent = ({ id, version }: ListedTask): boolean =>
            tasks.items.get(id)?.version === version;
          tasks.put(...items.filter(isCurrent));
        }
      } catch {
        // The state of the connection is shown beside the navigation.
      }
    };
    void read();
    const timer = setInterval(() => void read(), everyMs);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [view, tasks, claims]);
}

/** The time left. Lists have only the end of a lease, so there is no bar with its share of the whole. */
export function TaskLease({ task }: { task: ListedTask }) {
  const now = useClock();
  if (task.lease_expires_at === null) return null;
  const untilMs = Date.parse(task.lease_expires_at);
  return (
    <span class="task-lease" title={`Held by ${task.claimed_by ?? 'nobody'} until ${exactText(untilMs)}`}>
      {durationText(untilMs - now)}
    </span>
  );
}
