/**
 * `stoa work PROJECT -- COMMAND`: claims tasks and runs the command for each, until SIGINT or SIGTERM. The
 * command gets the text of the task on standard input.
 */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClaimSettings, ClaimedTask, Stoa } from '../../client/index.js';
import { StoaError, messageOf } from '../../core/errors.js';
import { type Action, durationOption, listOption, textOption } from '../definitions/definition.js';
import { type Ended, runCommand } from '../work/task-command.js';

/** One claim waits this long; then the next one does. */
const waitSeconds = 300;
/** After the first signal, a running command has this long to end by itself. */
const graceSecondsDefault = 30;
const reconnectMs = 2_000;

/** How a task ended for this worker. */
interface Report {
  status: 'completed' | 'failed' | 'returned' | 'input_required' | 'lost';
  how: string;
}

export const work: Action = async ({ connect, output, globals }, [project = '', ...rest], options) => {
  const command = rest.flat();
  if (command.length === 0)
    throw new StoaError('invalid_request', 'The command to run is missing.', {
      fix: 'Add it after "--": stoa work PROJECT -- ./run.sh',
    });
  // Claims, heartbeats and reports have the same name.
  const agent = textOption(globals, 'agent') ?? `${hostname()}-${process.pid}`;
  const stoa = await (await connect('refused', { agent })).client();
  const stops = new Stops((durationOption(options, 'grace') ?? graceSecondsDefault) * 1_000);
  const settings: ClaimSettings = {
    wait: options['once'] === true ? (durationOption(options, 'wait') ?? 0) : waitSeconds,
    leaseSeconds: durationOption(options, 'lease'),
    labels: listOption(options, 'label'),
    withoutLabels: listOption(options, 'without'),
    skills: listOption(options, 'skill'),
    signal: stops.claiming,
  };
  try {
    for (let isFirst = true; !stops.claiming.aborted; isFirst = false) {
      const claim = await nextClaim(stoa, project, settings, (error) => {
        if (isFirst) throw error;
        output.say(`${error.message} Trying again.`);
      });
      if (claim !== null) {
        const report = await perform(claim, {
          stoa,
          agent,
          command,
          project,
          retry: options['retry'],
          stops,
        });
        const { id } = claim.task;
        output.line({ task: id, ...report }, `${output.id(id)}  ${report.status}  ${report.how}`);
      }
      if (options['once'] !== true) continue;
      if (claim !== null || stops.claiming.aborted) return;
      throw new StoaError('not_found', `The project ${project} has no ready task that this worker can do.`, {
        fix: 'Wait for one with --wait 60s, or leave out --once.',
      });
    }
  } finally {
    stops.end();
  }
};

/** The first signal stops claims. The running command is terminated after the grace, or by the second signal. */
class Stops {
  readonly #claiming = new AbortController();
  readonly #running = new AbortController();
  readonly #graceMs: number;
  #grace: NodeJS.Timeout | undefined;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
    process.on('SIGINT', this.#onSignal).on('SIGTERM', this.#onSignal);
  }

  get claiming(): AbortSignal {
    return this.#claiming.signal;
  }

  get running(): AbortSignal {
    return this.#running.signal;
  }

  end(): void {
    clearTimeout(this.#grace);
    process.off('SIGINT', this.#onSignal).off('SIGTERM', this.#onSignal);
  }

  readonly #onSignal = (): void => {
    if (this.#claiming.signal.aborted) this.#running.abort();
    else this.#grace = setTimeout(() => this.#running.abort(), this.#graceMs);
    this.#claiming.abort();
  };
}

/** Null if no task came in time, or the worker stops. `onOutage` is called for errors that may pass. */
async function nextClaim(
  stoa: Stoa,
  project: string,
  settings: ClaimSettings,
  onOutage: (error: StoaError) => void,
): Promise<ClaimedTask | null> {
  try {
    return await stoa.tasks.claim(project, settings);
  } catch (error) {
    if (settings.signal?.aborted === true) return null;
    if (!(error instanceof StoaError) || error.passes === undefined) throw error;
    onOutage(error);
    await sleep(reconnectMs, undefined, { signal: settings.signal }).catch(() => undefined);
    return null;
  }
}

/** The command asked a person. The answer returns the task to the queue, for this worker or another. */
async function leaveToAnswer(stoa: Stoa, { task, fence }: ClaimedTask, { how }: Ended): Promise<Report> {
  const { status, question } = await stoa.tasks.get(task.id);
  if (status === 'input_required' && question !== null)
    await stoa.tasks.ask(task.id, { fence, question, release: true });
  return { status: 'input_required', how };
}

interface Performance {
  stoa: Stoa;
  agent: string;
  command: readonly string[];
  project: string;
  /** True: a failed task returns to the queue while it has attempts left. */
  retry: unknown;
  stops: Stops;
}

async function perform(
  claim: ClaimedTask,
  { stoa, agent, command, project, retry, stops }: Performance,
): Promise<Report> {
  const { task, fence } = claim;
  let ended: Ended;
  try {
    ended = await runCommand({
      command,
      input: task.command,
      environment: {
        STOA_AGENT: agent,
        TASK_ID: task.id,
        TASK_FENCE: String(fence),
        TASK_PROJECT: project,
        TASK_ATTEMPT: String(task.attempts + 1),
        ...(task.answer !== null && { TASK_ANSWER: task.answer }),
      },
      signal: AbortSignal.any([stops.running, claim.signal]),
    });
  } catch (error) {
    const reason = `The command "${command[0]}" cannot be started: ${messageOf(error)}.`;
    await claim.fail({ error: reason, retry: true });
    throw new StoaError('invalid_request', reason, { cause: error, fix: 'Check the command after "--".' });
  }
  // While the server is down, the result waits for it as long as the claim lives.
  while (!claim.signal.aborted) {
    try {
      return await reportOf(claim, ended, { isStopped: stops.running.aborted, retry });
    } catch (error) {
      if (error instanceof StoaError && error.passes !== undefined) {
        await sleep(reconnectMs);
        continue;
      }
      const code = error instanceof StoaError ? error.code : undefined;
      claim.abandon();
      if (code === 'conflict') return await leaveToAnswer(stoa, claim, ended);
      if (code === 'fenced' || code === 'not_found') return { status: 'lost', how: messageOf(error) };
      throw error;
    }
  }
  return { status: 'lost', how: messageOf(claim.signal.reason) };
}

async function reportOf(
  claim: ClaimedTask,
  { status, how, output, errors }: Ended,
  { isStopped, retry }: { isStopped: boolean; retry: unknown },
): Promise<Report> {
  if (status === 0) {
    await claim.complete({ output });
    return { status: 'completed', how };
  }
  const error = isStopped
    ? `The worker was stopped (${how}).`
    : `${how}${errors === '' ? '' : `: ${errors}`}`;
  const after = await claim.fail({
    error,
    output,
    ...((isStopped || retry === true) && { retry: true }),
  });
  return { status: after.status === 'pending' ? 'returned' : 'failed', how };
}
