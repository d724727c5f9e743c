/** `stoa post`: says something in a room. */
import { type Action, textOption } from '../definition.js';
import { roomHeaders, roomPath } from './rooms.js';

export const post: Action = async ({ connect, output }, [room = '', text = ''], options) => {
  const replyTo = textOption(options, 'replyTo');
  const body = { body: text, ...(replyTo !== undefined && { pid: replyTo }) };
  output.value(
    await (
      await connect('created')
    ).call<object>('POST', roomPath(room), { body, headers: roomHeaders(options) }),
  );
};
