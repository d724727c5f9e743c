/** One change in words: what happened to what, and by whom. */
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { href } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { shortId, visible } from '../../ui/format.js';
import { CopyButton } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { type Speaker, keyText } from '../../live/activity.js';
import type { RoomNames } from '../../live/room-names.js';
import { placeOf } from '../places.js';

export function ChangeRow(props: {
  change: ChangeItem;
  position: string | undefined;
  isShared: boolean;
  rooms: RoomNames;
  speakers: ReadonlyMap<string, Speaker>;
}) {
  const { change, position, isShared, rooms, speakers } = props;
  const to = placeOf(change);
  const name = useName(change, rooms, speakers);
  const facts = factsText(change);
  const content = (
    <>
      <span class="change-at">
        <Ago at={change.at} />
      </span>
      <span class={`change-kind ${change.domain}`}>{change.kind}</span>
      <span class={`clip ${change.domain === 'data' ? 'mono' : ''}`}>{visible(name)}</span>
      <span class="clip muted">{facts === name ? '' : visible(facts)}</span>
      <span class="clip change-by">{visible(byWhom(change, speakers))}</span>
    </>
  );
  return (
    <div class={`change-row ${isShared ? 'shared' : ''}`}>
      {to === undefined ? (
        <span class="change-line">{content}</span>
      ) : (
        <a class="change-line" data-row tabIndex={-1} href={to}>
          {content}
        </a>
      )}
      {position === undefined ? null : (
        <CopyButton
          icon="link"
          label="Copy a link to this position"
          text={globalThis.location.origin + href(['feed'], { position, at: String(change.seq) })}
        />
      )}
    </div>
  );
}

/** What people call the thing: the key of a document, the name of an agent or a room, the command of a task. */
function useName(change: ChangeItem, rooms: RoomNames, speakers: ReadonlyMap<string, Speaker>): string {
  const { agents, tasks } = useWorld();
  const { id, domain, facts } = change;
  if (domain === 'data') return keyText(change);
  const room = facts?.['room'];
  return (
    agents.items.get(id)?.name ??
    tasks.items.get(id)?.command ??
    rooms.get(typeof room === 'string' ? room : id) ??
    (speakers.get(id)?.name || shortId(id))
  );
}

/** A public room hides the agent of an author, but not the identity. */
function byWhom({ agent, user, facts }: ChangeItem, speakers: ReadonlyMap<string, Speaker>): string {
  return agent ?? speakers.get(String(facts?.['from']))?.name ?? user ?? '';
}

function factsText({ facts, domain, version }: ChangeItem): string {
  const { from, to, holder, reason } = facts ?? {};
  if (typeof to === 'string') return `${String(from)} → ${to}`;
  if (typeof holder === 'string') return holder;
  if (typeof reason === 'string') return reason;
  return domain === 'data' && version !== null ? `version ${version}` : '';
}
