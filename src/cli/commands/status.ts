/** `stoa status`: the status of the server and its store. */
import type { Action } from '../definitions/definition.js';
import { sizeText } from '../output/output.js';

export const status: Action = async ({ connect, output }) => {
  const connection = await connect();
  const answer = await connection.call('server.status', {});
  if (output.json) {
    output.value(answer);
    return;
  }
  const { families, size_bytes, feed_bytes, ...rest } = answer;
  output.value({
    answered_by: connection.stoa === undefined ? connection.where : `${connection.where} (no server runs)`,
    ...rest,
    size: sizeText(size_bytes),
    feed_size: sizeText(feed_bytes),
    families: Object.keys(families).length,
  });
};
