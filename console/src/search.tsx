/** Search over everything: pages, and records that are already on this page. */
import { useMemo, useState } from 'preact/hooks';
import { Observable, useObservable } from './observable.js';
import { href, navigate } from './router.js';
import { useWorld } from './live/use-world.js';
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
  const hits = useMemo(() => {
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
