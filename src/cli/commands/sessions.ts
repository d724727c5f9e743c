/** `stoa sessions …`: work sessions from the shell. */
import type { WorkSession } from '../../workspaces/model.js';
import { type Action, durationOption, numberOption, present, textOption } from '../definition.js';
import type { Column } from '../output.js';
import { type Page, creationHeaders, pageQuery, versionHeader } from '../resource-options.js';

const columns: readonly Column<WorkSession>[] = [
  ['ID', (session) => session.id],
  ['STATUS', (session) => session.status],
  ['AGENT', (session) => session.agent_id],
  ['COMMANDS', (session) => session.command_count],
  ['ERRORS', (session) => session.error_count],
  ['LAST_ACTIVE', (session) => session.last_active],
];

export const ls: Action = async ({ connect, output }, [project], options) => {
  const query = { ...pageQuery(options), status: textOption(options, 'status') };
  output.list(
    await (await connect()).call<Page<WorkSession>>('GET', `${projectPath(project)}/sessions`, { query }),
    columns,
    'No sessions.',
  );
};

export const get: Action = async ({ connect, output }, [id]) => {
  output.value(await (await connect()).call<WorkSession>('GET', pathOf(id)));
};

export const active: Action = async ({ connect, output }, [project]) => {
  output.value(await (await connect()).call<WorkSession>('GET', `${projectPath(project)}/active-session`));
};

export const create: Action = async ({ connect, output }, [project], options) => {
  const body = present({
    status: options['start'] === true ? 'active' : undefined,
    takeover: options['takeover'] === true ? true : undefined,
    process_id: numberOption(options, 'processId'),
    max_idle_time: durationOption(options, 'maxIdle'),
    max_lifetime: durationOption(options, 'maxLifetime'),
  });
  output.value(
    await (
      await connect()
    ).call<WorkSession>('POST', `${projectPath(project)}/sessions`, {
      body,
      headers: creationHeaders(options),
    }),
  );
};

export const move: Action = async ({ connect, output }, [id, status], options) => {
  const body = present({ status, takeover: options['takeover'] === true ? true : undefined });
  output.value(
    await (await connect()).call<WorkSession>('PATCH', pathOf(id), { body, headers: versionHeader(options) }),
  );
};

export const rm: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('DELETE', pathOf(id), { headers: versionHeader(options) });
  output.done({ deleted: id }, `Removed ${id} and its tasks.`);
};

function pathOf(id = ''): string {
  return `/v1/sessions/${encodeURIComponent(id)}`;
}

function projectPath(project = ''): string {
  return `/v1/projects/${encodeURIComponent(project)}`;
}
