/** `stoa post`: says something in a room. */
import { type Action, textOption } from '../definition.js';
import { roomKey } from './rooms.js';

export const post: Action = async ({ connect, output }, [room = '', body = ''], options) => {
  const input = { room, body, pid: textOption(options, 'replyTo'), key: roomKey(options) };
  output.value(await (await connect('created')).call('rooms.post', input));
};
