/** `stoa changes`: the feed, as a page or as it happens. */
import type { ChangeItem, ChangesClient } from '../../client/index.js';
import { StoaError } from '../../core/errors.js';
import { type Action, numberOption, textOption } from '../definition.js';
import type { Column, Output } from '../output.js';
import { untilInterrupted } from './watch.js';

const columns: readonly Column<ChangeItem>[] = [
  ['SEQ', (change) => change.seq],
  ['AT', (change) => new Date(change.at).toISOString()],
  ['DOMAIN', (change) => change.domain],
  ['KIND', (change) => change.kind],
  ['USER', (change) => change.user],
  ['VERSION', (change) => change.version],
  ['ID', (change) => change.id],
];

export const changes: Action = async ({ connect, output }, _args, options) => {
  const connection = await connect();
  const query = { since: textOption(options, 'since'), topics: textOption(options, 'topics') };
  if (options['follow'] !== true) {
    const page = await connection.call('changes.read', { ...query, limit: numberOption(options, 'limit') });
    output.list(output.json ? page : { items: page.items }, columns, 'No changes.');
    output.say(`Go on with: --since ${page.position}`);
    return;
  }
  const { changes: feed } = await connection.client();
  output.say(`Following ${connection.where}; end with Ctrl-C.`);
  await untilInterrupted((signal) =>
    follow(
      feed,
      { since: query.since, topics: query.topics?.split(','), signal },
      { output, reconnects: options['reconnect'] !== false },
    ),
  );
};

interface FollowOptions {
  output: Output;
  /** Whether to wait for a server that is away; one that never answered is not waited for. */
  reconnects: boolean;
}

async function follow(
  feed: ChangesClient,
  settings: Parameters<ChangesClient['follow']>[0],
  { output, reconnects }: FollowOptions,
): Promise<void> {
  let position: string | undefined;
  let isLost = false;
  const onLost = (reason: unknown): void => {
    if (position === undefined)
      throw reason instanceof StoaError
        ? reason
        : new StoaError('unreachable', 'The server ended the stream.', { cause: reason });
    if (!reconnects)
      throw new StoaError('unreachable', 'The server ended the stream.', {
        cause: reason,
        fix: `Go on with --since ${position}.`,
      });
    if (!isLost) output.say(`The server is away; going on after ${position} when it is back.`);
    isLost = true;
  };
  for await (const page of feed.follow({ ...settings, positions: true, onLost })) {
    position = page.position;
    if (isLost) output.say('The server is back.');
    isLost = false;
    for (const change of page.items)
      output.line(change, columns.map(([, cell]) => String(cell(change) ?? '-')).join('  '));
  }
}
