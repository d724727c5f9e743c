/** `stoa read`: what was said in a room, and what is being said. */
import { type Action, numberOption, textOption } from '../definition.js';
import type { Output } from '../output.js';
import { roomHeaders, roomPath } from './rooms.js';

interface Message {
  id: string;
  from: string;
  body: string;
  pid?: string;
  ts: number;
}

export const read: Action = async ({ connect, output }, [room = ''], options) => {
  const connection = await connect();
  const headers = roomHeaders(options);
  const thread = textOption(options, 'thread');
  const query = { limit: numberOption(options, 'limit'), before: numberOption(options, 'before') };
  const page =
    thread === undefined
      ? await connection.call<{ messages: Message[] }>('GET', roomPath(room), { query, headers })
      : await connection.call<{ messages: Message[] }>('GET', `${roomPath(room)}/${encodeURIComponent(thread)}/thread`, { query, headers });
  const messages = thread === undefined ? page.messages.toReversed() : page.messages;
  if (options['follow'] !== true) {
    if (output.json) output.value({ items: messages });
    else for (const message of messages) show(output, message);
    if (messages.length === 0) output.say('Nothing was said here lately.');
    return;
  }
  for (const message of messages) show(output, message);
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  const after = messages.at(-1)?.ts;
  try {
    for await (const event of connection.stream(`${roomPath(room)}/stream`, { query: { after }, headers }, stop.signal)) {
      // The route declares what its events hold.
      if (event.event === 'message') show(output, JSON.parse(event.data) as Message);
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  }
};

function show(output: Output, message: Message): void {
  const answered = message.pid === undefined ? '' : ` (to ${message.pid})`;
  output.line(message, `${new Date(message.ts).toISOString()} ${message.from.slice(0, 8)} ${message.id}${answered}  ${printable(message.body)}`);
}

/** Control characters in what others wrote must not reach a terminal. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (character) => (character === '\n' ? '\n  ' : ' '));
}
