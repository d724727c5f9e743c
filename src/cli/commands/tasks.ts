/** `stoa tasks claim`: claims a task for a worker that is a shell script. */
import { StoaError } from '../../core/errors.js';
import { type Action, durationOption, listOption } from '../definitions/definition.js';

/** Exit status 4 if no task is ready, so that a shell loop can check it. */
export const claim: Action = async ({ connect, output }, [project = ''], options) => {
  const claimed = await (
    await connect()
  ).call('tasks.claim', {
    project_id: project,
    wait: durationOption(options, 'wait'),
    lease_seconds: durationOption(options, 'lease'),
    labels: listOption(options, 'label'),
    without_labels: listOption(options, 'without'),
    skills: listOption(options, 'skill'),
  });
  if (claimed === undefined)
    throw new StoaError('not_found', `The project ${project} has no ready task.`, {
      fix: 'Wait for one with --wait 60s.',
    });
  output.value(
    output.json
      ? claimed
      : { ...claimed.task, fence: claimed.lease.fence, expires_at: claimed.lease.expires_at },
  );
};
