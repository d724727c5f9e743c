/** `stoa changes`: the feed, as a page or as it happens. */
import { StoaError } from '../../errors.js';
import { type Action, numberOption, textOption } from '../definition.js';
import type { Column } from '../output.js';

interface Change {
  seq: number;
  at: number | string;
  domain: string;
  kind: string;
  id: string;
  user: string | null;
  version: number | null;
}

const columns: readonly Column<Change>[] = [
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
    const page = await connection.call<{ items: Change[]; next_cursor: string | null; position: string }>('GET', '/v1/changes', { query: { ...query, limit: numberOption(options, 'limit') } });
    output.list(output.json ? page : { items: page.items }, columns, 'No changes.');
    output.say(`Go on with: --since ${page.position}`);
    return;
  }
  const stop = new AbortController();
  const end = (): void => stop.abort();
  process.once('SIGINT', end).once('SIGTERM', end);
  output.say(`Following ${connection.where}; end with Ctrl-C.`);
  try {
    for await (const event of connection.stream('/v1/changes', { query }, stop.signal)) {
      if (event.event === 'resync') throw new StoaError('resync', 'The feed no longer holds that position.', { fix: 'Read the state anew and follow from now on, without --since.' });
      if (event.event !== 'changes') continue;
      // The server's own schema says what an event holds.
      const { items } = JSON.parse(event.data) as { items: Change[] };
      for (const change of items) output.line(change, columns.map(([, cell]) => String(cell(change) ?? '-')).join('  '));
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return;
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
  }
  if (!stop.signal.aborted) throw new StoaError('unreachable', 'The server ended the stream.', { fix: 'Run the command again; --since goes on where it ended.' });
};
