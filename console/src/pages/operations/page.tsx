/** Operations: is it well, how busy is it, what takes the space, who serves, and is there a backup. */
import { useObservable } from '../../observable.js';
import { useLoaded } from '../../load.js';
import { useWorld } from '../../live/use-world.js';
import { countText, sizeText, visible } from '../../ui/format.js';
import { Empty, Field, Loading, Problem, Status } from '../../ui/parts.js';
import { durationText, useClock } from '../../ui/time.js';
import { AccountBox } from '../../account.js';
import { route } from '../../router.js';
import { isLow, useDisk } from '../fleet/attention.js';
import { Backups } from './backups.js';
import { Charts } from './charts.js';
import { Configuration } from './configuration.js';
import { Doctor } from './doctor.js';

const statusEveryMs = 10_000;

export function OperationsPage() {
  const { view } = useWorld();
  useObservable(route);
  return (
    <section class="main-column scrolling" aria-label="Operations" tabIndex={0}>
      <header class="page-head">
        <h1>Operations</h1>
      </header>
      <div class="cards">
        <AccountBox />
        {view.isOperator ? (
          <OperatorCards />
        ) : (
          <Empty title="Only the operator sees the state of the server" command="stoa status">
            Sign in with the operator's link or token for health, storage, backups and configuration.
          </Empty>
        )}
      </div>
    </section>
  );
}

function OperatorCards() {
  const round = Math.floor(useClock() / statusEveryMs);
  const { view } = useWorld();
  const status = useLoaded((signal) => view.stoa.admin.status({ signal }), [view.session.token], round);
  return (
    <>
      <Problem failure={status.failure} onRetry={status.reload} />
      <Charts />
      <section class="box whole-row">
        <h2>Health</h2>
        {status.value === undefined ? <Loading rows={4} /> : <Health status={status.value} />}
      </section>
      <Backups />
      <section class="box">
        <h2>Storage</h2>
        {status.value === undefined ? <Loading rows={4} /> : <Storage status={status.value} />}
      </section>
      <Doctor />
      <section class={`box ${(status.value?.servers.length ?? 0) > 0 ? 'whole-row' : ''}`}>
        <h2>Servers</h2>
        {status.value === undefined ? <Loading rows={2} /> : <Servers status={status.value} />}
      </section>
      <Configuration />
    </>
  );
}

type ServerStatus = Awaited<ReturnType<ReturnType<typeof useWorld>['view']['stoa']['admin']['status']>>;

function Health({ status }: { status: ServerStatus }) {
  const disk = useDisk();
  return (
    <dl class="fields health">
      <Field name="Writes">
        <Status
          name={status.writes === 'ok' ? 'accepted' : status.writes}
          tone={status.writes === 'ok' ? 'good' : 'bad'}
        />
      </Field>
      <Field name="Version">
        {status.version} on Node {status.node}
      </Field>
      <Field name="Up for">{durationText(status.uptime_seconds * 1_000)}</Field>
      <Field name="Home">
        {status.engine}, {status.shards} {status.shards === 1 ? 'shard' : 'shards'}
        {status.sync_writes ? '' : ', writes are not synced'}
      </Field>
      {disk === undefined ? null : (
        <Field name="Disk">
          {isLow(disk) ? <Status name="nearly full" tone="bad" /> : null} {sizeText(disk.freeBytes)} of{' '}
          {sizeText(disk.sizeBytes)} free
        </Field>
      )}
      <Field name="Streams">{countText(status.streams)}</Field>
      <Field name="Timers">
        {status.expiry_backlog_ms > 1_000 ? `${durationText(status.expiry_backlog_ms)} late` : 'on time'}
      </Field>
      <Field name="Outbox">
        {status.outbox === null
          ? 'its database does not answer'
          : `${countText(status.outbox.waiting)} waiting, ${countText(status.outbox.undeliverable)} undeliverable`}
      </Field>
      <Field name="Position">
        <code>{status.position}</code>
      </Field>
    </dl>
  );
}

function Servers({ status }: { status: ServerStatus }) {
  if (status.servers.length === 0) return <p class="muted">This home has one server.</p>;
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Servers">
      <table>
        <thead>
          <tr>
            <th>Server</th>
            <th>Version</th>
            <th>Up</th>
            <th>Behind</th>
            <th>Connections</th>
            <th>Clock</th>
            <th>Seen</th>
          </tr>
        </thead>
        <tbody>
          {status.servers.map((server) => (
            <tr key={server.id}>
              <td>{visible(server.url ?? `${server.host} process ${server.process_id}`)}</td>
              <td>{server.version}</td>
              <td>{durationText(server.uptime_seconds * 1_000)}</td>
              <td>
                {countText(server.feed_lag_commits)} in {server.feed_lag_ms} ms
              </td>
              <td>
                {server.pool_busy}/{server.pool_total}
              </td>
              <td>{server.clock_ahead_ms} ms</td>
              <td>{durationText(server.seen_ms_ago)} ago</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Storage({ status }: { status: ServerStatus }) {
  const families = Object.entries(status.families).toSorted(([, a], [, b]) => b.size_bytes - a.size_bytes);
  const largest = Math.max(1, families[0]?.[1].size_bytes ?? 1);
  return (
    <>
      <p class="muted">
        {sizeText(status.size_bytes)} in all, of which the change feed has {sizeText(status.feed_bytes)}.
      </p>
      <div class="table storage" tabIndex={0} role="region" aria-label="Storage">
        <table>
          <thead>
            <tr>
              <th>Family or table</th>
              <th>Rows</th>
              <th>Size</th>
              <th>Share</th>
            </tr>
          </thead>
          <tbody>
            {families.map(([name, { entries, size_bytes, estimated }]) => (
              <tr key={name}>
                <td class="mono">{name}</td>
                <td>
                  {estimated ? 'about ' : ''}
                  {countText(entries)}
                </td>
                <td>{sizeText(size_bytes)}</td>
                <td>
                  <span class="share">
                    <span style={{ transform: `scaleX(${(size_bytes / largest).toFixed(3)})` }} />
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
