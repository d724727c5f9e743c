/** `stoa who`: the identity of an agent, and its keys. */
import type { Action } from '../../definitions/definition.js';

export const who: Action = async ({ connect, output }, [identity = ''], options) => {
  const connection = await connect();
  output.value(
    options['keys'] === true
      ? await connection.call('profiles.listKeys', { identity })
      : await connection.call('profiles.get', { identity }),
  );
};
