/** `stoa rooms create`, and the key of a private room for other commands. */
import { type Action, type Options, textOption } from '../../definitions/definition.js';

/** A key makes the room private. */
export const create: Action = async ({ connect, output }, [name = ''], options) => {
  const key = roomKey(options);
  output.value(
    await (
      await connect('created')
    ).call('rooms.create', { name, ...(key !== undefined && { is_private: true, key }) }),
  );
};

/** A variable does not show the key in the list of processes. */
export function roomKey(options: Options): string | undefined {
  return textOption(options, 'key') ?? process.env['STOA_ROOM_KEY'];
}
