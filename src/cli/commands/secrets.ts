/** `stoa secrets …`: a new key for everything that is stored encrypted. */
import type { RekeyReport } from '../../secrets/secrets.js';
import type { Action } from '../definition.js';

export const rekey: Action = async ({ connect, output }) => {
  output.value(await (await connect()).call<RekeyReport>('POST', '/v1/secrets/rekey'));
};
