/** `stoa tasks …`: tasks from the shell, also for workers that are shell scripts. */
import type { Claim, ClaimLease, Task } from '../../workspaces/model.js';
import { StoaError } from '../../errors.js';
import {
  type Action,
  type Options,
  durationOption,
  listOption,
  numberOption,
  present,
  textOption,
} from '../definition.js';
import { readText } from '../file-option.js';
import type { Column } from '../output.js';
import {
  type Page,
  creationHeaders,
  pageQuery,
  requiredNumber,
  signedOption,
  versionHeader,
} from '../resource-options.js';

const columns: readonly Column<Task>[] = [
  ['ID', (task) => task.id],
  ['STATUS', (task) => task.status],
  ['PRIORITY', (task) => task.priority],
  ['ATTEMPTS', (task) => task.attempts],
  ['CLAIMED_BY', (task) => task.claimed_by],
  ['COMMAND', (task) => task.command],
];

export const ls: Action = async ({ connect, output }, [session = ''], options) => {
  const query = { ...pageQuery(options), status: textOption(options, 'status') };
  output.list(
    await (
      await connect()
    ).call<Page<Task>>('GET', `/v1/sessions/${encodeURIComponent(session)}/tasks`, { query }),
    columns,
    'No tasks.',
  );
};

export const ready: Action = async ({ connect, output }, [project], options) => {
  output.list(
    await (
      await connect()
    ).call<Page<Task>>('GET', `${projectTasks(project)}/ready`, { query: pageQuery(options) }),
    columns,
    'Nothing is ready.',
  );
};

export const get: Action = async ({ connect, output }, [id]) => {
  output.value(await (await connect()).call<Task>('GET', pathOf(id)));
};

export const create: Action = async ({ connect, output }, [session = '', command], options) => {
  const body = present({
    command,
    priority: signedOption(options, 'priority'),
    depends_on: listOption(options, 'after'),
    max_attempts: numberOption(options, 'maxAttempts'),
  });
  output.value(
    await (
      await connect()
    ).call<Task>('POST', `/v1/sessions/${encodeURIComponent(session)}/tasks`, {
      body,
      headers: creationHeaders(options),
    }),
  );
};

export const update: Action = async ({ connect, output }, [id], options) => {
  const body = present({
    command: textOption(options, 'command'),
    priority: signedOption(options, 'priority'),
    max_attempts: numberOption(options, 'maxAttempts'),
  });
  output.value(
    await (await connect()).call<Task>('PATCH', pathOf(id), { body, headers: versionHeader(options) }),
  );
};

export const rm: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('DELETE', pathOf(id), { headers: versionHeader(options) });
  output.done({ deleted: id }, `Removed ${id}.`);
};

/** Exit status 4 when nothing is ready, so that a loop in a shell can tell. */
export const claim: Action = async ({ connect, output }, [project], options) => {
  const body = present({
    wait: durationOption(options, 'wait'),
    lease_seconds: durationOption(options, 'lease'),
  });
  const claimed = await (
    await connect()
  ).call<Claim | undefined>('POST', `${projectTasks(project)}/claim`, { body });
  if (claimed === undefined || claimed === null)
    throw new StoaError('not_found', 'Nothing is ready.', { fix: 'Wait for it with --wait 60s.' });
  output.value(
    output.json
      ? claimed
      : { ...claimed.task, fence: claimed.lease.fence, expires_at: claimed.lease.expires_at },
  );
};

export const heartbeat: Action = async ({ connect, output }, [id], options) => {
  const answer = await (
    await connect()
  ).call<{ lease: ClaimLease }>('POST', `${pathOf(id)}/heartbeat`, {
    body: { fence: requiredNumber(options, 'fence') },
  });
  output.value(output.json ? answer : answer.lease);
};

export const complete: Action = async ({ connect, output }, [id], options) => {
  output.value(
    await (await connect()).call<Task>('POST', `${pathOf(id)}/complete`, { body: await resultOf(options) }),
  );
};

export const fail: Action = async ({ connect, output }, [id], options) => {
  const body = present({
    ...(await resultOf(options)),
    error: textOption(options, 'error'),
    retry: options['retry'] === true ? true : undefined,
  });
  output.value(await (await connect()).call<Task>('POST', `${pathOf(id)}/fail`, { body }));
};

export const cancel: Action = async ({ connect, output }, [id], options) => {
  output.value(
    await (
      await connect()
    ).call<Task>('POST', `${pathOf(id)}/cancel`, {
      body: present({ reason: textOption(options, 'reason') }),
    }),
  );
};

async function resultOf(options: Options): Promise<Record<string, unknown>> {
  return present({
    fence: requiredNumber(options, 'fence'),
    output: textOption(options, 'output') ?? (await readText(options, 'outputFile')),
  });
}

function pathOf(id = ''): string {
  return `/v1/tasks/${encodeURIComponent(id)}`;
}

function projectTasks(project = ''): string {
  return `/v1/projects/${encodeURIComponent(project)}/tasks`;
}
