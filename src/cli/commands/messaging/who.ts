/** `stoa who`: the profile of a messaging identity. */
import type { Action } from '../../definitions/definition.js';

export const who: Action = async ({ connect, output }, [identity = ''], options) => {
  const connection = await connect();
  output.value(
    options['keys'] === true
      ? await connection.call('identities.listKeys', { identity })
      : await connection.call('identities.get', { identity }),
  );
};
