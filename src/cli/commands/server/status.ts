/** `stoa status`: the status of the server and its store. */
import type { Action } from '../../definitions/definition.js';
import { counted, sizeText } from '../../output/output.js';

export const status: Action = async ({ connect, output }) => {
  const connection = await connect();
  const answer = await connection.call('server.status', {});
  if (output.json) {
    output.value(answer);
    return;
  }
  const { families, size_bytes, feed_bytes, servers, outbox, embedding, ...rest } = answer;
  output.value({
    answered_by: connection.stoa === undefined ? connection.where : `${connection.where} (no server runs)`,
    ...rest,
    outbox:
      outbox === null
        ? 'unknown: its database does not answer'
        : `${outbox.waiting} waiting, ${outbox.undeliverable} undeliverable`,
    embedding:
      embedding.model === null
        ? 'off'
        : `${embedding.model}, ${counted(embedding.waiting, 'document')} waiting${embedding.failing === null ? '' : `, failing: ${embedding.failing}`}; ${embedding.search}`,
    size: sizeText(size_bytes),
    feed_size: sizeText(feed_bytes),
    families: Object.keys(families).length,
  });
  if (servers.length > 0)
    output.list(
      { items: servers },
      [
        ['SERVER', ({ url, host, process_id }) => url ?? `${host} process ${process_id}`],
        ['VERSION', ({ version }) => version],
        ['UP', ({ uptime_seconds }) => `${uptime_seconds} s`],
        ['BEHIND', ({ feed_lag_commits, feed_lag_ms }) => `${feed_lag_commits} in ${feed_lag_ms} ms`],
        ['POOL', ({ pool_busy, pool_total }) => `${pool_busy}/${pool_total}`],
        ['CLOCK', ({ clock_ahead_ms }) => `${clock_ahead_ms > 0 ? '+' : ''}${clock_ahead_ms} ms`],
        ['SEEN', ({ seen_ms_ago }) => `${Math.round(seen_ms_ago / 1_000)} s ago`],
      ],
      '',
    );
};
