/** Search over everything: agents and tasks that are already here at once, then what the server finds. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Observable, useObservable } from './observable.js';
import { href, navigate } from './router.js';
import { useWorld } from './live/use-world.js';
import type { World } from './live/world.js';
import { Modal } from './ui/dialog.js';
import { shortId, visible } from './ui/format.js';

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

export function Search() {
  return useObservable(isOpen) ? <SearchDialog /> : null;
}

function SearchDialog() {
  const { agents, tasks } = useWorld();
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const wanted = words.trim().toLowerCase();
  const local = useMemo(() => {
    const found: Hit[] = [];
    if (wanted === '') return found;
    for (const agent of agents.items.values()) {
      if (!`${agent.name} ${agent.agent_id} ${agent.user}`.toLowerCase().includes(wanted)) continue;
      found.push({
        kind: 'agent',
        text: agent.name,
        detail: `${agent.status} · ${agent.user}`,
        to: href(['fleet', agent.agent_id]),
      });
      if (found.length >= hitsMax) return found;
    }
    for (const task of tasks.items.values()) {
      if (!`${task.command} ${task.id} ${task.claimed_by ?? ''}`.toLowerCase().includes(wanted)) continue;
      found.push({
        kind: 'task',
        text: task.command,
        detail: `${task.status} · ${shortId(task.id)}`,
        to: href(['work', task.id]),
      });
      if (found.length >= hitsMax) return found;
    }
    return found;
  }, [wanted]);
  const found = useFound(words.trim());
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
        aria-label="Search agents, tasks, documents and messages"
        placeholder="Search agents, tasks, documents, messages"
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
              <span class="muted">{visible(hit.detail)}</span>
            </a>
          </li>
        ))}
      </ul>
      {hits.length === 0 && wanted !== '' ? <p class="muted">Nothing found.</p> : null}
    </Modal>
  );
}

const pauseMs = 200;

/** Documents, tasks and messages by their words. A search that fails shows nothing: the local hits stay. */
function useFound(words: string): readonly Hit[] {
  const { view } = useWorld();
  const [found, setFound] = useState<{ words: string; hits: readonly Hit[] }>({ words: '', hits: [] });
  useEffect(() => {
    if (words === '') return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      view.stoa
        .find(words, { limit: hitsMax, signal: stop.signal })
        .then(({ items }) => setFound({ words, hits: items.map(hitOf) }))
        .catch(() => stop.signal.aborted || setFound({ words, hits: [] }));
    }, pauseMs);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [view, words]);
  return found.words === words ? found.hits : [];
}

type Found = Awaited<ReturnType<World['view']['stoa']['find']>>['items'][number];

function hitOf({ namespace, key, room_id, id = '', excerpt, author, kind }: Found): Hit {
  const detail = author ?? '';
  if (namespace !== undefined && key !== undefined)
    return {
      kind: 'document',
      text: `${namespace}/${key}`,
      detail: excerpt.slice(0, 60),
      to: href(['data', namespace, key]),
    };
  if (room_id !== undefined)
    return { kind: 'message', text: excerpt, detail, to: href(['rooms', room_id, id]) };
  return { kind: kind === 'tasks' ? 'task' : kind, text: excerpt, detail, to: href(['work', id]) };
}
