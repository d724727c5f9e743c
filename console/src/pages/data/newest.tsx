/** The documents that were written last, while no namespace is chosen. */
import { useMemo } from 'preact/hooks';
import { keyText } from '../../live/activity.js';
import { useWorld } from '../../live/use-world.js';
import { useObservable } from '../../observable.js';
import { userFlag } from '../../stoa.js';
import { visible } from '../../ui/format.js';
import { Empty, Loading } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { placeOf } from '../places.js';

const shownMax = 30;

export function NewestDocuments({ isEmpty }: { isEmpty: boolean }) {
  const { view, feed } = useWorld();
  const round = useObservable(feed.round);
  const user = view.user ?? view.session.user;
  const newest = useMemo(() => {
    const byKey = new Map<string, (typeof feed.recent)[number]>();
    for (const change of feed.recent.toReversed()) {
      if (byKey.size >= shownMax) break;
      if (change.domain !== 'data' || typeof change.facts?.['key'] !== 'string') continue;
      if (change.user !== null && change.user !== user) continue;
      if (!byKey.has(change.id)) byKey.set(change.id, change);
    }
    return [...byKey.values()].filter(({ kind }) => kind === 'document.set');
  }, [feed, round, user]);
  if (round === 0) return <Loading />;
  if (newest.length === 0)
    return (
      <Empty
        title={isEmpty ? 'No documents yet' : 'No documents were written recently'}
        command={`stoa data set greeting hello${userFlag(view)}`}
      >
        {isEmpty
          ? 'The first document makes its namespace.'
          : 'Choose a namespace to see its keys as a tree.'}
      </Empty>
    );
  return (
    <section class="newest" aria-label="Last written">
      <h2>Last written</h2>
      <ul data-list>
        {newest.map((change) => (
          <li key={change.id}>
            <a class="newest-row" data-row href={placeOf(change)}>
              <span class="clip mono">{visible(keyText(change))}</span>
              <span class="clip muted">{visible(change.agent ?? '')}</span>
              <span class="muted">
                <Ago at={change.at} />
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
