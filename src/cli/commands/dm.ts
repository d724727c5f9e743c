/** `stoa dm …`: direct messages of the identity that the server keeps for the caller. */
import { type Action, numberOption } from '../definition.js';
import type { Column } from '../output.js';

interface Direct {
  id: string;
  from: string;
  body: string;
  ts: number;
  acknowledged?: true | undefined;
}

const columns: readonly Column<Direct>[] = [
  ['AT', (message) => message.ts],
  ['FROM', (message) => message.from],
  ['ID', (message) => message.id],
  ['READ', (message) => (message.acknowledged === true ? 'yes' : 'no')],
  ['BODY', (message) => message.body],
];

export const send: Action = async ({ connect, output }, [agent = '', text = '']) => {
  output.value(await (await connect()).call('direct.send', { to: agent, body: text }));
};

export const read: Action = async ({ connect, output }, _args, options) => {
  const input = { limit: numberOption(options, 'limit'), ...(options['pending'] === true && { pending: 1 }) };
  const { messages } = await (await connect()).call('direct.read', input);
  output.list({ items: messages }, columns, 'No direct messages.');
};

export const acknowledge: Action = async ({ connect, output }, ids) => {
  output.value(await (await connect()).call('direct.acknowledge', { ids: ids.flat() }));
};
