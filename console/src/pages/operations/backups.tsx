/** Backups: list, take, verify. */
import { useState } from 'preact/hooks';
import { useLoaded } from '../../load.js';
import { useWorld } from '../../live/use-world.js';
import { attempt } from '../../ui/dialog.js';
import { sizeText } from '../../ui/format.js';
import { Button, Empty, Reading, Status } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';

export function Backups() {
  const { view } = useWorld();
  const [isBusy, setBusy] = useState(false);
  const [verdicts, setVerdicts] = useState<ReadonlyMap<string, string>>(new Map());
  const list = useLoaded((signal) => view.stoa.admin.backups.list({ signal }), [view.session.token]);
  const run = async (action: () => Promise<unknown>, done: string): Promise<void> => {
    setBusy(true);
    await attempt(action, done);
    setBusy(false);
    list.reload();
  };
  const take = (kind: 'full' | 'incremental'): Promise<void> =>
    run(() => view.stoa.admin.backups.create({ kind }), 'The backup is complete.');
  const verify = (): Promise<void> =>
    run(async () => {
      const { items } = await view.stoa.admin.backups.verify({});
      setVerdicts(new Map(items.map(({ name, ok, reason }) => [name, ok ? 'whole' : (reason ?? 'damaged')])));
    }, 'Every backup was read.');
  const items = (list.value?.items ?? []).toReversed();
  return (
    <section class="box">
      <header class="box-head">
        <h2>Backups</h2>
        <Button disabled={isBusy} onClick={() => void take('full')}>
          Take a backup
        </Button>
        <Button disabled={isBusy || items.length === 0} onClick={() => void take('incremental')}>
          Take an increment
        </Button>
        <Button disabled={isBusy || items.length === 0} onClick={() => void verify()}>
          Verify
        </Button>
      </header>
      <Reading of={list} rows={2} />
      {list.value !== undefined && items.length === 0 ? (
        <Empty title="No backups yet" command="stoa backup --full" />
      ) : null}
      {items.length === 0 ? null : (
        <div class="table" tabIndex={0} role="region" aria-label="Backups">
          <table>
            <thead>
              <tr>
                <th>Taken</th>
                <th>Name</th>
                <th>Kind</th>
                <th>Size</th>
                <th>Chain</th>
              </tr>
            </thead>
            <tbody>
              {items.map(({ name, taken_at, kind, size_bytes, reason }) => (
                <tr key={name}>
                  <td>
                    <Ago at={taken_at} />
                  </td>
                  <td class="mono">{name}</td>
                  <td>{kind}</td>
                  <td>{sizeText(size_bytes)}</td>
                  <td>
                    <Verdict reason={reason} verdict={verdicts.get(name)} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {(list.value?.unreadable ?? []).map(({ name, reason }) => (
        <p class="muted" key={name}>
          {reason}
        </p>
      ))}
    </section>
  );
}

function Verdict({ reason, verdict }: { reason: string | null; verdict: string | undefined }) {
  if (verdict !== undefined)
    return (
      <Status name={verdict === 'whole' ? 'verified' : verdict} tone={verdict === 'whole' ? 'good' : 'bad'} />
    );
  return reason === null ? <Status name="complete" tone="calm" /> : <Status name={reason} tone="bad" />;
}
