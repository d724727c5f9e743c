/**
 * Search over everything: agents, tasks, rooms and namespaces by their names at once, then documents, tasks and messages
 * by their words.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Observable, useObservable } from './observable.js';
import { href, navigate } from './router.js';
import { useLoaded } from './load.js';
import { useWorld } from './live/use-world.js';
import type { AgentAnswer, ListedTask, World } from './live/world.js';
import { Modal } from './ui/dialog.js';
import { plural, shortId, visible } from './ui/format.js';

const isOpen = new Observable(false);

export function openSearch(): void {
  isOpen.set(true);
}

export interface Hit {
  readonly kind: string;
  readonly text: string;
  readonly detail: string;
  readonly to: string;
}

const hitsMax = 12;
/** Of one kind, so that a word which names many agents shows the room of that name too. */
const namedMax = 6;
const placesMax = 1_000;

export function Search() {
  return useObservable(isOpen) ? <SearchDialog /> : null;
}

function SearchDialog() {
  const { agents, tasks } = useWorld();
  const rounds = [useObservable(agents.round), useObservable(tasks.round)];
  useEffect(() => {
    agents.use();
    tasks.use();
  }, [agents, tasks]);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const wanted = words.trim().toLowerCase();
  const places = usePlaces();
  const local = useMemo(
    () =>
      wanted === ''
        ? []
        : [
            ...named(agents.items.values(), wanted, agentText, agentHit),
            ...named(tasks.items.values(), wanted, taskText, taskHit),
            ...named(
              places,
              wanted,
              ({ text }) => text,
              (hit) => hit,
            ),
          ],
    [wanted, places, ...rounds],
  );
  const { hits: found, isSearching } = useFound(words.trim());
  const known = new Set(local.map(({ to }) => to));
  const hits = [...local, ...found.filter(({ to }) => !known.has(to))];
  const close = (): void => isOpen.set(false);
  const choose = (hit: Hit | undefined): void => {
    if (hit === undefined) return;
    close();
    navigate(hit.to);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'Enter') choose(hits[at]);
    else if (event.key === 'ArrowDown') setAt(Math.min(hits.length - 1, at + 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else return;
    event.preventDefault();
  };
  return (
    <Modal title="Search" onClose={close} isWide isPlain>
      <input
        class="search-words"
        type="search"
        aria-label="Search agents, tasks, rooms, documents and messages"
        placeholder="Search agents, tasks, rooms, documents, messages"
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKey}
      />
      <ul class="hits">
        {hits.map((hit, index) => (
          <li key={hit.to}>
            <a
              href={hit.to}
              class={index === at ? 'chosen' : ''}
              onClick={(event) => {
                event.preventDefault();
                choose(hit);
              }}
            >
              <span class="hit-kind">{hit.kind}</span>
              <span class="hit-text">{visible(hit.text)}</span>
              <span class="hit-detail muted">{visible(hit.detail)}</span>
            </a>
          </li>
        ))}
      </ul>
      {hits.length > 0 ? null : (
        <p class="muted">
          {wanted === ''
            ? 'By name: agents, tasks, rooms, namespaces. By their words: documents, tasks, messages.'
            : isSearching
              ? 'Searching …'
              : 'Nothing found.'}
        </p>
      )}
    </Modal>
  );
}

/** The first records whose text has the words. */
function named<Item>(
  items: Iterable<Item>,
  wanted: string,
  textOf: (item: Item) => string,
  hitFor: (item: Item) => Hit,
): Hit[] {
  const found: Hit[] = [];
  for (const item of items) {
    if (found.length >= namedMax) break;
    if (textOf(item).toLowerCase().includes(wanted)) found.push(hitFor(item));
  }
  return found;
}

const agentText = ({ name, agent_id, user }: AgentAnswer): string => `${name} ${agent_id} ${user}`;

const agentHit = ({ name, agent_id, user, status }: AgentAnswer): Hit => ({
  kind: 'agent',
  text: name,
  detail: `${status} · ${user}`,
  to: href(['fleet', agent_id]),
});

const taskText = ({ command, id, claimed_by }: ListedTask): string => `${command} ${id} ${claimed_by ?? ''}`;

const taskHit = ({ command, id, status }: ListedTask): Hit => ({
  kind: 'task',
  text: command,
  detail: `${status} · ${shortId(id)}`,
  to: href(['work', id]),
});

const noHits: readonly Hit[] = [];

/** Rooms and namespaces, read when the search opens. If the read fails, the other hits stay. */
function usePlaces(): readonly Hit[] {
  const { view } = useWorld();
  const { value } = useLoaded(
    async (signal): Promise<readonly Hit[]> => {
      const [rooms, namespaces] = await Promise.all([
        view.stoa.rooms.list({ limit: placesMax, signal }),
        view.stoa.data().listNamespaces({ limit: placesMax, signal }),
      ]);
      return [
        ...rooms.items.map(({ id, name, message_count }) => ({
          kind: 'room',
          text: name,
          detail: plural(message_count, 'message'),
          to: href(['rooms', id]),
        })),
        ...namespaces.items.map(({ namespace, count }) => ({
          kind: 'namespace',
          text: namespace,
          detail: plural(count, 'document'),
          to: href(['data', namespace]),
        })),
      ];
    },
    [view.session.token, view.user],
  );
  return value ?? noHits;
}

const pauseMs = 200;

/** Documents, tasks and messages by their words. A search that fails shows nothing: the local hits stay. */
function useFound(words: string): { hits: readonly Hit[]; isSearching: boolean } {
  const { view } = useWorld();
  const [found, setFound] = useState<{ words: string; hits: readonly Hit[] }>({ words: '', hits: [] });
  useEffect(() => {
    if (words === '') return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      view.stoa
        .find(whileTyping(words), { limit: hitsMax, signal: stop.signal })
        .then(({ items }) => setFound({ words, hits: items.map(hitOf) }))
        .catch(() => stop.signal.aborted || setFound({ words, hits: [] }));
    }, pauseMs);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [view, words]);
  const isSearching = found.words !== words;
  return { hits: isSearching ? noHits : found.hits, isSearching };
}

/** The last word may be a beginning of the one that is typed. Its other forms are found too. */
function whileTyping(words: string): string {
  const [, last] = /(?:^|\s)([\p{L}\p{Nd}][\p{L}\p{M}\p{Nd}_./:@-]+)$/u.exec(words) ?? [];
  const isInPhrase = words.split('"').length % 2 === 0;
  return last === undefined || isInPhrase ? words : `${words} ${last}*`;
}

type Found = Awaited<ReturnType<World['view']['stoa']['find']>>['items'][number];

function hitOf({ namespace, key, room, room_id, id = '', excerpt, kind }: Found): Hit {
  if (namespace !== undefined && key !== undefined)
    return {
      kind: 'document',
      text: `${namespace}/${key}`,
      detail: excerpt.slice(0, 60),
      to: href(['data', namespace, key]),
    };
  if (room_id !== undefined)
    return { kind: 'message', text: excerpt, detail: room ?? '', to: href(['rooms', room_id, id]) };
  return {
    kind: kind === 'tasks' ? 'task' : kind,
    text: excerpt,
    detail: shortId(id),
    to: href(['work', id]),
  };
}
