/** `stoa who`: the profile of a messaging identity. */
import type { Action } from '../definition.js';

export const who: Action = async ({ connect, output }, [agent = ''], options) => {
  const path = `/who/${encodeURIComponent(agent)}${options['keys'] === true ? '/keys' : ''}`;
  output.value(await (await connect()).call<object>('GET', path));
};
