/** `stoa doctor`: finds rows that contradict each other, and repairs them. */
import { resolve } from 'node:path';
import { StoaError } from '../../../core/errors.js';
import { acceptLosses, isLoss } from '../../../homes/directory/kernel/directory/durable-note.js';
import type { Connection } from '../../connection/connection.js';
import type { Action, Context } from '../../definitions/definition.js';
import { counted } from '../../output/output.js';

export const doctor: Action = async (context, _args, options) => {
  const { connect, output } = context;
  const connection = options['acceptLoss'] === true ? await connectAcceptingLoss(context) : await connect();
  output.say(`Examining ${connection.where} …`);
  const examination = await output.working('Checking', ({ update }) =>
    connection.work('server.examine', { repair: options['repair'] === true }, update),
  );
  const { found, repaired, remaining, findings } = examination;
  if (output.json) output.value(examination);
  else {
    output.list(
      { items: findings },
      [
        ['SHARD', (row) => row.shard],
        ['FAMILY', (row) => row.family],
        ['KIND', (row) => row.kind],
        [
          'STATE',
          (row) => (row.repaired ? 'repaired' : row.repair === null ? 'needs a backup' : 'can be repaired'),
        ],
        ['PROBLEM', (row) => row.problem],
      ],
      'Nothing is wrong.',
    );
    if (found > findings.length) output.say(`… and ${found - findings.length} more.`);
  }
  if (remaining === 0) {
    if (repaired > 0) output.say(`Repaired ${repaired}.`);
    return;
  }
  const canRepair = findings.some((row) => !row.repaired && row.repair !== null);
  throw new StoaError(
    'invalid_data',
    remaining === 1 && found === 1
      ? 'One finding is not repaired.'
      : `${remaining} of ${counted(found, 'finding')} ${remaining === 1 ? 'is' : 'are'} not repaired.`,
    {
      fix: canRepair
        ? 'Repair with: stoa doctor --repair'
        : 'Restore a backup into a new directory with: stoa restore',
    },
  );
};

/** A running server has lost no transactions: otherwise it would not have started. */
async function connectAcceptingLoss({ connect, output, settings }: Context): Promise<Connection> {
  try {
    return await connect();
  } catch (error) {
    if (!isLoss(error)) throw error;
    output.warn(error.message);
  }
  const { config } = settings();
  await acceptLosses(resolve(config.data));
  return connect();
}
