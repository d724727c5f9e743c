/** `stoa workspaces …`: workspaces from the shell. */
import type { Workspace } from '../../workspaces/model.js';
import { type Action, type Options, present, textOption } from '../definition.js';
import { readText } from '../file-option.js';
import type { Column } from '../output.js';
import { type Page, creationHeaders, namedListQuery, versionHeader } from '../resource-options.js';

const columns: readonly Column<Workspace>[] = [
  ['ID', (workspace) => workspace.id],
  ['NAME', (workspace) => workspace.name],
  ['STATUS', (workspace) => workspace.status],
  ['TASKS', (workspace) => workspace.active_tasks],
  ['OWNER', (workspace) => workspace.owner_id],
  ['UPDATED', (workspace) => workspace.updated_at],
];

export const ls: Action = async ({ connect, output }, _args, options) => {
  const page = await (
    await connect()
  ).call<Page<Workspace>>('GET', '/v1/workspaces', { query: namedListQuery(options) });
  output.list(page, columns, 'No workspaces. Make one with: stoa workspaces create NAME');
};

export const get: Action = async ({ connect, output }, [id], options) => {
  output.value(
    await (
      await connect()
    ).call<Workspace>('GET', pathOf(id), {
      query: { deleted: options['deleted'] === true ? true : undefined },
    }),
  );
};

export const create: Action = async ({ connect, output }, [name], options) => {
  const body = present({ name, ...(await fieldsOf(options)) });
  output.value(
    await (
      await connect('created')
    ).call<Workspace>('POST', '/v1/workspaces', { body, headers: creationHeaders(options) }),
  );
};

export const update: Action = async ({ connect, output }, [id], options) => {
  const body = present({ name: textOption(options, 'name'), ...(await fieldsOf(options)) });
  output.value(
    await (await connect()).call<Workspace>('PATCH', pathOf(id), { body, headers: versionHeader(options) }),
  );
};

export const rm: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('DELETE', pathOf(id), { headers: versionHeader(options) });
  output.done({ deleted: id }, `Deleted ${id}. Bring it back with: stoa workspaces restore ${id}`);
};

export const restore: Action = async ({ connect, output }, [id], options) => {
  output.value(
    await (
      await connect()
    ).call<Workspace>('POST', `${pathOf(id)}/restore`, {
      body: present({ name: textOption(options, 'name') }),
    }),
  );
};

export const purge: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('POST', `${pathOf(id)}/purge`, { headers: versionHeader(options) });
  output.done({ purged: id }, `Purged ${id}.`);
};

function pathOf(id = ''): string {
  return `/v1/workspaces/${encodeURIComponent(id)}`;
}

/** The key comes from a file or standard input: arguments are seen by every process of the machine. */
async function fieldsOf(options: Options): Promise<Record<string, unknown>> {
  const key = await readText(options, 'keyFile');
  return {
    project_path: textOption(options, 'path'),
    status: textOption(options, 'status'),
    claude_key: options['key'] === false ? null : key?.trim(),
  };
}
