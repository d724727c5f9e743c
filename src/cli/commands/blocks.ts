/** `stoa blocks …`: addresses that ran into rate limits too often. */
import { type Action, pageQuery } from '../definition.js';
import type { Column } from '../output.js';

interface Block {
  ip: string;
  reason: string;
  expires_at: string;
}

const columns: readonly Column<Block>[] = [
  ['ADDRESS', (block) => block.ip],
  ['UNTIL', (block) => block.expires_at],
  ['REASON', (block) => block.reason],
];

export const ls: Action = async ({ connect, output }, _args, options) => {
  const page = await (await connect()).call('blocks.list', pageQuery(options));
  output.list(page, columns, 'No address is blocked.');
};

export const rm: Action = async ({ connect, output }, [address = '']) => {
  await (await connect()).call('blocks.delete', { ip: address });
  output.done({ unblocked: address }, `${address} is no longer blocked.`);
};
