/** `stoa projects …`: projects from the shell. */
import type { Project } from '../../workspaces/model.js';
import { type Action, type Options, present, textOption } from '../definition.js';
import { readJson } from '../file-option.js';
import type { Column } from '../output.js';
import { type Page, creationHeaders, namedListQuery, versionHeader } from '../resource-options.js';

const columns: readonly Column<Project>[] = [
  ['ID', (project) => project.id],
  ['NAME', (project) => project.name],
  ['STATUS', (project) => project.status],
  ['LANGUAGE', (project) => project.language],
  ['PATH', (project) => project.path],
  ['UPDATED', (project) => project.updated_at],
];

export const ls: Action = async ({ connect, output }, [workspace = ''], options) => {
  const page = await (
    await connect()
  ).call<Page<Project>>('GET', `/v1/workspaces/${encodeURIComponent(workspace)}/projects`, {
    query: namedListQuery(options),
  });
  output.list(page, columns, `No projects. Make one with: stoa projects create ${workspace} NAME`);
};

export const get: Action = async ({ connect, output }, [id], options) => {
  output.value(
    await (
      await connect()
    ).call<Project>('GET', pathOf(id), {
      query: { deleted: options['deleted'] === true ? true : undefined },
    }),
  );
};

export const create: Action = async ({ connect, output }, [workspace = '', name], options) => {
  const body = present({ name, ...(await fieldsOf(options)) });
  output.value(
    await (
      await connect()
    ).call<Project>('POST', `/v1/workspaces/${encodeURIComponent(workspace)}/projects`, {
      body,
      headers: creationHeaders(options),
    }),
  );
};

export const update: Action = async ({ connect, output }, [id], options) => {
  const body = present({
    name: textOption(options, 'name'),
    workspace_id: textOption(options, 'workspace'),
    ...(await fieldsOf(options)),
  });
  output.value(
    await (await connect()).call<Project>('PATCH', pathOf(id), { body, headers: versionHeader(options) }),
  );
};

export const rm: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('DELETE', pathOf(id), { headers: versionHeader(options) });
  output.done({ deleted: id }, `Deleted ${id}. Bring it back with: stoa projects restore ${id}`);
};

export const restore: Action = async ({ connect, output }, [id], options) => {
  output.value(
    await (
      await connect()
    ).call<Project>('POST', `${pathOf(id)}/restore`, {
      body: present({ name: textOption(options, 'name') }),
    }),
  );
};

export const purge: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('POST', `${pathOf(id)}/purge`, { headers: versionHeader(options) });
  output.done({ purged: id }, `Purged ${id}.`);
};

function pathOf(id = ''): string {
  return `/v1/projects/${encodeURIComponent(id)}`;
}

async function fieldsOf(options: Options): Promise<Record<string, unknown>> {
  return {
    path: textOption(options, 'path'),
    description: textOption(options, 'description'),
    git_url: textOption(options, 'gitUrl'),
    git_branch: textOption(options, 'gitBranch'),
    language: textOption(options, 'language'),
    status: textOption(options, 'status'),
    config: await readJson(options, 'configFile'),
  };
}
