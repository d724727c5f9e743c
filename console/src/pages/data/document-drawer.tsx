/** One document: its value as a tree and as text, who wrote and read it, and changes with a check of the version. */
import { useEffect, useState } from 'preact/hooks';
import type { DataDocument, JsonValue } from '../../../../src/client/index.js';
import { href, navigate, route } from '../../router.js';
import { quoted, userFlag } from '../../stoa.js';
import { useLoaded } from '../../load.js';
import { useWorld } from '../../live/use-world.js';
import { ask, say } from '../../ui/dialog.js';
import { AgentName } from '../../ui/agent-name.js';
import { Drawer } from '../../ui/drawer.js';
import { countText, plural, visible } from '../../ui/format.js';
import { JsonTree } from '../../ui/json-tree.js';
import { Button, CopyButton, Empty, Field, Reading, Tabs } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { DocumentEditor } from './document-editor.js';

type Tab = 'tree' | 'text';

const textShownMax = 100_000;

export function DocumentDrawer({
  namespace,
  documentKey,
  closeTo,
}: {
  namespace: string;
  documentKey: string;
  closeTo: string;
}) {
  const { view, feed } = useWorld();
  const [tab, setTab] = useState<Tab>('tree');
  const [isEditing, setEditing] = useState(route.value.query.get('edit') === '1');
  const [newer, setNewer] = useState(0);
  const loaded = useLoaded(
    async (signal) => (await view.stoa.data(namespace).getEntry(documentKey, { signal })) ?? null,
    [namespace, documentKey, view.user],
    newer,
  );
  useEffect(
    () =>
      feed.listen((changes) => {
        const isOwn = changes.some(
          ({ domain, facts }) =>
            domain === 'data' && facts?.['namespace'] === namespace && facts['key'] === documentKey,
        );
        if (isOwn) setNewer((count) => count + 1);
      }),
    [feed, namespace, documentKey],
  );
  const found = loaded.value;
  const remove = (): void =>
    ask({
      title: `Delete ${documentKey}?`,
      text: 'The document is removed. Its changes stay in the feed.',
      action: 'Delete',
      isDangerous: true,
      act: async () => {
        await view.stoa.data(namespace).delete(documentKey, { ifVersion: found?.version });
        navigate(closeTo);
        say('The document is deleted.');
      },
    });
  return (
    <Drawer
      title={<span class="mono">{visible(documentKey)}</span>}
      label={`Document ${documentKey}`}
      closeTo={closeTo}
      actions={
        found === undefined || found === null ? undefined : (
          <>
            {view.canWrite && !isEditing ? (
              <>
                <Button onClick={() => setEditing(true)}>Edit</Button>
                <Button kind="danger" onClick={remove}>
                  Delete
                </Button>
              </>
            ) : null}
            <CopyAs document={found} />
          </>
        )
      }
    >
      <Reading of={loaded} />
      {found === null ? (
        <Empty
          title="This document does not exist"
          command={`stoa data set ${quoted(documentKey)} null -n ${quoted(namespace)}${userFlag(view)}`}
        >
          It was deleted, has expired, or was never written.
        </Empty>
      ) : null}
      {found === undefined || found === null ? null : isEditing ? (
        <DocumentEditor
          document={found}
          onDone={() => {
            setEditing(false);
            navigate(href(['data', namespace, documentKey], { edit: undefined }), { replace: true });
            setNewer((count) => count + 1);
          }}
        />
      ) : (
        <>
          <div class="value-head">
            <Tabs<Tab>
              label="How the value is shown"
              names={[
                ['tree', 'Tree'],
                ['text', 'Text'],
              ]}
              chosen={tab}
              onChoose={setTab}
            />
          </div>
          {tab === 'tree' ? <JsonTree value={found.value} /> : <ValueText value={found.value} />}
          <Facts document={found} />
        </>
      )}
    </Drawer>
  );
}

function ValueText({ value }: { value: JsonValue }) {
  const text = JSON.stringify(value, null, 2);
  return (
    <>
      <pre class="value-text" tabIndex={0}>
        {visible(text.slice(0, textShownMax))}
      </pre>
      {text.length > textShownMax ? (
        <p class="muted">
          The first {countText(textShownMax)} of {countText(text.length)} characters. Copy as curl to read all
          of it.
        </p>
      ) : null}
    </>
  );
}

function Facts({ document: found }: { document: DataDocument }) {
  const metadata = Object.keys(found.metadata).length;
  return (
    <dl class="fields document-facts">
      <Field name="Version">{found.version}</Field>
      <Field name="Written">
        <Ago at={found.updatedAt} /> by <Writer name={found.updatedByAgent} user={found.userId} />
      </Field>
      <Field name="Created">
        <Ago at={found.createdAt} /> by <Writer name={found.createdByAgent} user={found.userId} />
      </Field>
      <Field name="Read">
        <Reads document={found} />
      </Field>
      <Field name="Expires">
        {found.expiresAt === null ? <span class="none">never</span> : <Ago at={found.expiresAt} />}
      </Field>
      {metadata === 0 ? null : (
        <Field name="Metadata">
          <JsonTree value={found.metadata} />
        </Field>
      )}
      <Field name="User">{visible(found.userId)}</Field>
    </dl>
  );
}

function Writer({ name, user }: { name: string | null; user: string }) {
  return name === null ? <>no named agent</> : <AgentName name={name} user={user} />;
}

/** A write counts as the last access too, so an access at the time of the last write is not a read. */
function Reads({ document: found }: { document: DataDocument }) {
  if (found.accessCount === 0) return <span class="none">never by an agent</span>;
  const isSinceWrite = found.lastAccessedAt !== null && found.lastAccessedAt !== found.updatedAt;
  return (
    <>
      {plural(found.accessCount, 'time')} by agents,{' '}
      {isSinceWrite ? (
        <>
          last <Ago at={found.lastAccessedAt} /> by{' '}
          <Writer name={found.lastAccessedByAgent} user={found.userId} />
        </>
      ) : (
        'not since the last write'
      )}
    </>
  );
}

function CopyAs({ document: { namespace, key, userId } }: { document: DataDocument }) {
  const { view } = useWorld();
  const { origin } = globalThis.location;
  const path = `/v1/data/${encodeURIComponent(namespace)}/${encodeURIComponent(key)}`;
  const user = view.isOperator ? ` -H "Stoa-User: ${encodeURIComponent(userId)}"` : '';
  return (
    <span class="copy-as">
      <CopyButton
        label="Copy as curl"
        words="curl"
        text={`curl '${origin}${path}' -H "Authorization: Bearer $STOA_TOKEN"${user}`}
      />
      <CopyButton
        label="Copy as CLI command"
        words="CLI"
        text={`stoa data get ${quoted(key)} -n ${quoted(namespace)}${view.isOperator ? ` --user ${quoted(userId)}` : ''}`}
      />
      <CopyButton
        label="Copy as SDK call"
        words="SDK"
        text={`const value = await stoa.data(${JSON.stringify(namespace)}).get(${JSON.stringify(key)});`}
      />
    </span>
  );
}
