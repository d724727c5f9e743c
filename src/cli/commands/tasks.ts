/** `stoa tasks claim`: a task for a worker that is a shell script. */
import { StoaError } from '../../core/errors.js';
import { type Action, durationOption } from '../definitions/definition.js';

/** Exit status 4 when nothing is ready, so that a loop in a shell can tell. */
export const claim: Action = async ({ connect, output }, [project = ''], options) => {
  const claimed = await (
    await connect()
  ).call('tasks.claim', {
    project_id: project,
    wait: durationOption(options, 'wait'),
    lease_seconds: durationOption(options, 'lease'),
  });
  if (claimed === undefined)
    throw new StoaError('not_found', 'Nothing is ready.', { fix: 'Wait for it with --wait 60s.' });
  output.value(
    output.json
      ? claimed
      : { ...claimed.task, fence: claimed.lease.fence, expires_at: claimed.lease.expires_at },
  );
};
