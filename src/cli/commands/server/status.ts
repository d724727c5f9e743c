/** `stoa status`: the status of the server and its store. */
import type { Action } from '../../definitions/definition.js';
import { sizeText } from '../../output/output.js';

export const status: Action = async ({ connect, output }) => {
  const connection = await connect();
  const answer = await connection.call('server.status', {});
  if (output.json) {
    output.value(answer);
    return;
  }
  const { families, size_bytes, feed_bytes, servers, ...rest } = answer;
  output.value({
    answered_by: connection.stoa === undefined ? connection.where : `${connection.where} (no server runs)`,
    ...rest,
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
