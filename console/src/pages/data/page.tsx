/** The data: namespaces, keys as a tree, and one document. */
import { useMemo, useState } from 'preact/hooks';
import { useObservable } from '../../observable.js';
import { href, navigate, route, setQuery } from '../../router.js';
import { quoted, userFlag } from '../../stoa.js';
import { type Loaded, useLoaded } from '../../load.js';
import { useWorld } from '../../live/use-world.js';
import { ask, say } from '../../ui/dialog.js';
import { countText, plural, sizeText, visible } from '../../ui/format.js';
import { Button, Empty, Icon, Loading, Problem, Reading } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { VirtualList } from '../../ui/virtual-list.js';
import { useThrottledRound } from '../../live/throttled.js';
import { DocumentDrawer } from './document-drawer.js';
import { useKeys } from './keys.js';
import { NewestDocuments } from './newest.js';
import { type TreeRow, treeRows } from './tree.js';

export function DataPage() {
  const { path, query } = useObservable(route);
  const [, namespace, key] = path;
  const prefix = query.get('prefix') ?? '';
  const namespaces = useNamespaces();
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Data">
        <header class="page-head">
          <h1>Data</h1>
          <NewDocument namespace={namespace ?? 'default'} />
          {namespace === undefined ? null : (
            <input
              type="search"
              class="filter"
              placeholder="Keys that begin with"
              aria-label="Keys that begin with"
              value={prefix}
              onInput={(event) => setQuery({ prefix: event.currentTarget.value })}
            />
          )}
        </header>
        <div class={`data-columns ${namespace === undefined ? '' : 'chosen'}`}>
          <Namespaces loaded={namespaces} chosen={namespace} />
          {namespace === undefined ? (
            <div class="data-none">
              <NewestDocuments isEmpty={namespaces.value?.items.length === 0} />
            </div>
          ) : (
            <KeyTree key={namespace} namespace={namespace} prefix={prefix} chosen={key} />
          )}
        </div>
      </section>
      {namespace === undefined || key === undefined ? null : (
        <DocumentDrawer
          key={`${namespace} ${key}`}
          namespace={namespace}
          documentKey={key}
          closeTo={href(['data', namespace], { prefix })}
        />
      )}
    </div>
  );
}

const namespacesMax = 1_000;

type NamespacePage = Awaited<
  ReturnType<ReturnType<ReturnType<typeof useWorld>['view']['stoa']['data']>['listNamespaces']>
>;

function useNamespaces(): Loaded<NamespacePage> {
  const { view } = useWorld();
  const round = useThrottledRound(({ domain }) => domain === 'data', 3_000);
  return useLoaded(
    (signal) => view.stoa.data().listNamespaces({ limit: namespacesMax, signal }),
    [view.session.token, view.user],
    round,
  );
}

function Namespaces({ loaded, chosen }: { loaded: Loaded<NamespacePage>; chosen: string | undefined }) {
  const { view } = useWorld();
  const items = loaded.value?.items ?? [];
  return (
    <nav class="namespaces" aria-label="Namespaces">
      {view.isOperator && view.user === undefined ? (
        <p class="muted hint">Documents belong to a user. Shown are those of the user “default”.</p>
      ) : null}
      <Reading of={loaded} />
      {loaded.value !== undefined && items.length === 0 ? <p class="muted hint">No namespaces</p> : null}
      <ul data-list>
        {items.map(({ namespace, count, sizeBytes }) => (
          <li key={namespace}>
            <a
              data-row
              href={href(['data', namespace])}
              aria-current={namespace === chosen ? 'page' : undefined}
            >
              <span class="clip">{visible(namespace)}</span>
              <span class="muted">
                {countText(count)} · {sizeText(sizeBytes)}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function KeyTree({
  namespace,
  prefix,
  chosen,
}: {
  namespace: string;
  prefix: string;
  chosen: string | undefined;
}) {
  const { view } = useWorld();
  const keys = useKeys(namespace, prefix);
  const [open, setOpen] = useState<ReadonlySet<string>>(() => parentsOf(chosen));
  const rows = useMemo(() => treeRows(keys.items, open), [keys.items, open]);
  const toggle = (path: string): void => {
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  };
  return (
    <div class="key-tree">
      <p class="key-count muted">
        <a class="narrow-back" href={href(['data'])} aria-label="All namespaces">
          <Icon name="back" />
        </a>
        {visible(namespace)} · {plural(keys.items.length, 'key')}
        {keys.isCut ? ', and more: type the beginning of a key' : keys.isComplete ? '' : ' so far'}
      </p>
      <Problem failure={keys.failure} onRetry={keys.reload} />
      <VirtualList<TreeRow>
        items={rows}
        rowHeight={32}
        label={`Keys of ${namespace}`}
        shown={chosen}
        keyOf={(row) => (row.kind === 'folder' ? `folder ${row.path}` : row.item.key)}
        row={(row) =>
          row.kind === 'folder' ? (
            <button
              type="button"
              class="tree-row"
              data-row
              tabIndex={-1}
              aria-expanded={row.isOpen}
              style={{ paddingLeft: `${12 + row.depth * 16}px` }}
              onClick={() => toggle(row.path)}
            >
              <Icon name={row.isOpen ? 'down' : 'right'} />
              <span class="clip mono">{visible(row.name)}</span>
              <span class="muted">{countText(row.count)}</span>
            </button>
          ) : (
            <a
              class={`tree-row ${row.item.key === chosen ? 'chosen' : ''}`}
              data-row
              tabIndex={-1}
              aria-current={row.item.key === chosen ? 'true' : undefined}
              style={{ paddingLeft: `${34 + row.depth * 16}px` }}
              href={href(['data', namespace, row.item.key], { prefix })}
            >
              <span class="clip mono">{visible(row.name)}</span>
              <span class="muted">
                {row.item.sizeBytes > 0 ? `${sizeText(row.item.sizeBytes)} · ` : ''}
                <Ago at={row.item.updatedAt} />
              </span>
            </a>
          )
        }
        empty={
          keys.isComplete ? (
            <Empty
              title={prefix === '' ? 'No keys' : `No key begins with “${prefix}”`}
              command={`stoa data set ${quoted(`${prefix}greeting`)} hello -n ${quoted(namespace)}${userFlag(view)}`}
            />
          ) : (
            <Loading />
          )
        }
      />
    </div>
  );
}

/** The folders above a key, so that a link to a document shows where it is. */
function parentsOf(key: string | undefined): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { index } of (key ?? '').matchAll(/[/:]/g)) found.add((key ?? '').slice(0, index + 1));
  return found;
}

function NewDocument({ namespace }: { namespace: string }) {
  const { view } = useWorld();
  if (!view.canWrite) return null;
  return (
    <Button
      onClick={() =>
        ask({
          title: `New document in ${namespace}`,
          input: { label: 'Key' },
          action: 'Create',
          act: async (key) => {
            await view.stoa.data(namespace).set(key, null, { ifVersion: 0 });
            navigate(href(['data', namespace, key], { edit: '1' }));
            say('The document exists. Give it a value.');
          },
        })
      }
    >
      New document
    </Button>
  );
}
