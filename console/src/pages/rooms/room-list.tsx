/** The rooms that can be read: those of the user, then the public ones. */
import { type Loaded, useLoaded } from '../../load.js';
import { href } from '../../router.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useWorld } from '../../live/use-world.js';
import { countText, visible } from '../../ui/format.js';
import { Icon, Reading } from '../../ui/parts.js';

const roomsMax = 1_000;

type RoomPage = Awaited<ReturnType<ReturnType<typeof useWorld>['view']['stoa']['rooms']['list']>>;
export type RoomRecord = RoomPage['items'][number];

export function useRooms(): Loaded<RoomPage> {
  const { view } = useWorld();
  const round = useThrottledRound(({ domain }) => domain === 'messaging', 2_000);
  return useLoaded(
    (signal) => view.stoa.rooms.list({ limit: roomsMax, signal }),
    [view.session.token, view.user],
    round,
  );
}

export function RoomList({ loaded, chosen }: { loaded: Loaded<RoomPage>; chosen: string | undefined }) {
  const { view } = useWorld();
  const rooms = loaded.value?.items ?? [];
  const entry = ({ id, name, owner, is_private, message_count }: RoomRecord) => (
    <Entry key={id} to={id} isChosen={chosen === id || chosen === name}>
      <span class="clip">{visible(name)}</span>
      <span class="muted">
        {view.isOperator && view.user === undefined && owner !== null ? `${visible(owner)} · ` : ''}
        {is_private ? <Icon name="lock" title="Needs its key" /> : null}
        {countText(message_count)}
      </span>
    </Entry>
  );
  const own = rooms.filter(({ owner }) => owner !== null);
  const open = rooms.filter(({ owner }) => owner === null);
  return (
    <nav class="namespaces" aria-label="Rooms" data-list>
      <Reading of={loaded} rows={3} />
      {own.length === 0 ? null : (
        <h2>{view.isOperator && view.user === undefined ? 'Rooms of users' : 'Own rooms'}</h2>
      )}
      <ul>{own.map(entry)}</ul>
      {open.length === 0 ? null : <h2>Public rooms</h2>}
      <ul>{open.map(entry)}</ul>
      <h2>Other</h2>
      <ul>
        <Entry to="direct" isChosen={chosen === 'direct'}>
          Direct messages
        </Entry>
        {view.isOperator ? (
          <Entry to="blocked" isChosen={chosen === 'blocked'}>
            Blocked addresses
          </Entry>
        ) : null}
      </ul>
    </nav>
  );
}

function Entry({
  to,
  isChosen,
  children,
}: {
  to: string;
  isChosen: boolean;
  children: preact.ComponentChildren;
}) {
  return (
    <li>
      <a data-row href={href(['rooms', to])} aria-current={isChosen ? 'page' : undefined}>
        {children}
      </a>
    </li>
  );
}
