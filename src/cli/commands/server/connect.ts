/** `stoa connect`: prints the MCP configuration of editors and agents, or merges it into their files. */
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { loadConfig } from '../../../core/settings/config.js';
import { StoaError } from '../../../core/errors.js';
import { packageRoot } from '../../../version.js';
import { didYouMean } from '../../../core/text/nearest.js';
import { type Action, type Context, type Options, textOption } from '../../definitions/definition.js';
import { type McpServerEntry, editors, thisPlace } from '../../editors/editors.js';
import { mergeJson, mergeMarked, mergeToml, tomlTable } from '../../editors/merge-settings.js';
import { programPath } from '../../mcp/program-path.js';
import { settingFlags } from '../../definitions/setting-flags.js';
import { isMissing, readIfThere } from '../../../core/files.js';

const serverName = 'stoa';
const snippetTarget = 'agents-md';
const marks = ['<!-- stoa:begin -->', '<!-- stoa:end -->'] as const;
const snippet = new URL('docs/AGENTS-snippet.md', packageRoot);

export const connect: Action = async (context, [target = ''], options) => {
  if (target === snippetTarget) {
    const text = await readFile(snippet, 'utf8');
    await deliver(context, options, {
      path: 'AGENTS.md',
      text,
      merged: (before) => mergeMarked(before, marks, text),
    });
    return;
  }
  const editor = Object.hasOwn(editors, target) ? editors[target] : undefined;
  if (editor === undefined) throw unknownTarget(target);
  const entry = editor.entry(await entryOf(context, options));
  const path = editor.path(thisPlace(options['global'] === true));
  const isToml = editor.format === 'toml';
  await deliver(context, options, {
    path,
    text: isToml
      ? tomlTable(editor.section, serverName, entry)
      : `${JSON.stringify({ [editor.section]: { [serverName]: entry } }, null, 2)}\n`,
    merged: (before, file) =>
      isToml
        ? mergeToml(before, editor.section, serverName, entry, file)
        : mergeJson(before, editor.section, serverName, entry, file),
  });
};

interface Delivery {
  path: string;
  /** The text to paste into a file that has no entry yet. */
  text: string;
  merged(before: string, file: string): string;
}

async function deliver(
  { output }: Context,
  options: Options,
  { path, text, merged }: Delivery,
): Promise<void> {
  const file = await realFile(resolve(path));
  if (options['write'] !== true) {
    if (output.json) output.value({ file, text });
    else {
      output.say(`For ${file}; --write merges it in:`);
      process.stdout.write(text);
    }
    return;
  }
  const before = await readIfThere(file);
  const after = merged(before ?? '', file);
  if (after === before) {
    output.done({ file, changed: false, backup: null }, `${file} already has this entry.`);
    return;
  }
  const backup = before === undefined ? null : await backUp(file);
  await mkdir(dirname(file), { recursive: true });
  await replace(file, after);
  output.done(
    { file, changed: true, backup },
    `Wrote ${file}${backup === null ? '' : `; the previous content is in ${backup}`}.`,
  );
}

/**
 * The entry with a command needs no token, because it reads the operator's. The entry with a URL needs one in
 * the environment.
 */
async function entryOf({ globals, connect: open }: Context, options: Options): Promise<McpServerEntry> {
  const url = textOption(globals, 'url');
  if (url !== undefined || options['http'] === true) {
    const base = url ?? (await open()).where;
    if (!URL.canParse(base))
      throw new StoaError('unreachable', `No server runs on ${base}, so there is no URL to connect to.`, {
        fix: 'Start one with "stoa up", or pass --url.',
      });
    return { url: new URL('/mcp', base).href };
  }
  const { config } = loadConfig({ flags: settingFlags(globals), environment: process.env });
  const [user, agent, configFile] = ['user', 'agent', 'config'].map((name) => textOption(globals, name));
  // The editor chooses the working directory, so every path is absolute.
  const args = [programPath(), 'mcp', '--data', resolve(config.data)];
  if (configFile !== undefined) args.push('--config', resolve(configFile));
  if (user !== undefined) args.push('--user', user);
  if (agent !== undefined) args.push('--agent', agent);
  return { command: process.execPath, args };
}

/** If the path is a link, the file behind it is changed, not the link. */
async function realFile(path: string): Promise<string> {
  return realpath(path).catch((error: NodeJS.ErrnoException) => {
    if (isMissing(error)) return path;
    throw error;
  });
}

/** Each backup has a different name, so that a second run does not overwrite the first backup. */
async function backUp(file: string): Promise<string> {
  const backup = `${file}.${new Date().toISOString().replaceAll(/[:.]/g, '-')}.bak`;
  await copyFile(file, backup);
  return backup;
}

/** Replaces the file completely or not at all, with the permissions that it had. */
async function replace(file: string, text: string): Promise<void> {
  const mode = await stat(file).then(
    ({ mode: bits }) => bits & 0o777,
    () => 0o600,
  );
  const draft = `${file}.${randomUUID()}.draft`;
  await writeFile(draft, text, { mode });
  // The umask of the program removed permissions.
  await chmod(draft, mode);
  await rename(draft, file);
}

function unknownTarget(target: string): StoaError {
  const known = [...Object.keys(editors), snippetTarget];
  return new StoaError('invalid_request', `Unknown target "${target}".${didYouMean(target, known)}`, {
    fix: `Use ${known.join(', ')}.`,
  });
}
