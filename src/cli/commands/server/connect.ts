/** `stoa connect`: prints the MCP configuration of editors and agents, or merges it into their files. */
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { StoaError } from '../../../core/errors.js';
import { packageRoot } from '../../../version.js';
import { didYouMean } from '../../../core/text/nearest.js';
import { type Action, type Context, type Options, textOption } from '../../definitions/definition.js';
import { connectedDirectory } from '../../editors/directory.js';
import { type McpServerEntry, editors, thisPlace } from '../../editors/editors.js';
import { hookFiles, mergeHooks, removeHooks } from '../../editors/hooks.js';
import {
  mergeJson,
  mergeMarked,
  mergeToml,
  removeJson,
  removeMarked,
  removeToml,
  tomlTable,
} from '../../editors/merge-settings.js';
import { scopeOf } from '../../editors/repository.js';
import { roomOf } from '../../mcp/scope.js';
import { programPath } from '../../mcp/program-path.js';
import { isMissing, readIfThere } from '../../../core/files.js';

const serverName = 'stoa';
const snippetTarget = 'agents-md';
const marks = ['<!-- stoa:begin -->', '<!-- stoa:end -->'] as const;
const snippet = new URL('docs/AGENTS-snippet.md', packageRoot);

export const connect: Action = async (context, [target = ''], options) => {
  const scope = await scopeOf('.');
  const isProject = options['global'] !== true;
  if (target === snippetTarget) return deliverAll(context, options, await snippets(scope));
  const editor = Object.hasOwn(editors, target) ? editors[target] : undefined;
  if (editor === undefined) throw unknownTarget(target);
  const path = editor.path(thisPlace(!isProject));
  const entry = editor.entry(await entryOf(context, options, isAbsolute(path) ? undefined : scope));
  const isToml = editor.format === 'toml';
  const settings: Delivery = {
    path,
    text: isToml
      ? tomlTable(editor.section, serverName, entry)
      : `${JSON.stringify({ [editor.section]: { [serverName]: entry } }, null, 2)}\n`,
    merged: (before, file) =>
      isToml
        ? mergeToml(before, editor.section, serverName, entry, file)
        : mergeJson(before, editor.section, serverName, entry, file),
    removed: (before, file) =>
      isToml
        ? removeToml(before, editor.section, serverName)
        : removeJson(before, editor.section, serverName, file),
  };
  const hooks = isProject ? hooksOf(context, target, scope) : undefined;
  const more = target === 'claude-code' && isProject ? await snippets(scope) : [];
  const first =
    hooks === undefined ? [settings] : hooks.path === path ? [joined(settings, hooks)] : [settings, hooks];
  await deliverAll(context, options, [...first, ...more]);
};

/** Two changes of one file. */
function joined(first: Delivery, second: Delivery): Delivery {
  return {
    path: first.path,
    text: second.merged(first.text, first.path),
    merged: (before, file) => second.merged(first.merged(before, file), file),
    removed: (before, file) => second.removed(first.removed(before, file), file),
  };
}

/** The instructions for agents, in the files that programs read: AGENTS.md, and CLAUDE.md beside it. */
async function snippets(scope: string): Promise<Delivery[]> {
  const text = `${(await readFile(snippet, 'utf8')).trim()}\n- This repository is \`${scope}\`: its memory is the namespace \`${scope}\`, its tasks are the project \`${scope}\`, its room is \`${roomOf(scope)}\`. Calls without these fields mean them.\n`;
  return ['AGENTS.md', 'CLAUDE.md'].map((path) => ({
    path,
    text,
    merged: (before) => mergeMarked(before, marks, text),
    removed: (before) => removeMarked(before, marks),
  }));
}

/** The hooks look at the same data as the MCP server. Undefined for a program without hooks that add text. */
function hooksOf(context: Context, program: string, scope: string): Delivery | undefined {
  const { globals } = context;
  const hookFile = Object.hasOwn(hookFiles, program) ? hookFiles[program] : undefined;
  if (hookFile === undefined) return undefined;
  const place = ['url', 'user', 'agent', 'config'].flatMap((name) => {
    const value = textOption(globals, name);
    return value === undefined ? [] : [`--${name}`, quoted(value)];
  });
  const where = globals['url'] === undefined ? ['--data', inShell(fromHome(dataOf(context)))] : [];
  const format = program === 'claude-code' ? [] : ['--program', program];
  const command = (argument: string): string =>
    ['npx -y stoa hook', argument, '--scope', scope, ...format, ...where, ...place].join(' ');
  return {
    path: hookFile.path,
    text: mergeHooks('', hookFile, command, ''),
    merged: (before, file) => mergeHooks(before, hookFile, command, file),
    removed: (before, file) => removeHooks(before, hookFile, file),
  };
}

/** One argument for the shell. */
function quoted(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The shell replaces `~` only outside quotes. */
function inShell(path: string): string {
  return path.startsWith('~/') ? `~/${quoted(path.slice(2))}` : quoted(path);
}

interface Delivery {
  path: string;
  /** The text to paste into a file that has no entry yet. */
  text: string;
  merged(before: string, file: string): string;
  removed(before: string, file: string): string;
}

interface Delivered {
  file: string;
  changed: boolean;
  backup: string | null;
}

/** Prints the first file without --write; with it, every file is merged or, with --remove, freed of our part. */
async function deliverAll(
  { output }: Context,
  options: Options,
  deliveries: readonly Delivery[],
): Promise<void> {
  const writes = options['write'] === true || options['remove'] === true;
  if (!writes && options['dryRun'] !== true) {
    const [{ path, text } = { path: '', text: '' }] = deliveries;
    const file = await realFile(resolve(path));
    if (output.json) output.value({ file, text });
    else {
      output.say(`For ${file}; --write merges it in${also(deliveries)}:`);
      process.stdout.write(text);
    }
    return;
  }
  const done: Delivered[] = [];
  for (const delivery of deliveries) done.push(await deliver(delivery, options));
  const [first] = done;
  const verb = options['dryRun'] === true ? 'Would write' : 'Wrote';
  output.done(
    { ...first, files: done },
    done
      .map(({ file, changed, backup }) =>
        changed
          ? `${verb} ${file}${backup === null ? '' : `; the previous content is in ${backup}`}.`
          : `${file} needs no change.`,
      )
      .join('\n'),
  );
}

function also(deliveries: readonly Delivery[]): string {
  const others = deliveries.slice(1).map(({ path }) => path);
  return others.length === 0 ? '' : `, and writes ${others.join(', ')}`;
}

async function deliver({ path, merged, removed }: Delivery, options: Options): Promise<Delivered> {
  const file = await realFile(resolve(path));
  const before = await readIfThere(file);
  const isRemoval = options['remove'] === true;
  const after = isRemoval ? removed(before ?? '', file) : merged(before ?? '', file);
  const isSame = after === (before ?? '') || (isRemoval && before === undefined);
  if (isSame || options['dryRun'] === true) return { file, changed: !isSame, backup: null };
  const backup = before === undefined ? null : await backUp(file);
  await mkdir(dirname(file), { recursive: true });
  await replace(file, after);
  return { file, changed: true, backup };
}

/**
 * The entry with a command needs no token, because it reads the operator's. The entry with a URL needs one in
 * the environment.
 */
async function entryOf(
  context: Context,
  options: Options,
  scope: string | undefined,
): Promise<McpServerEntry> {
  const { globals, connect: open, output } = context;
  const url = textOption(globals, 'url');
  if (url !== undefined || options['http'] === true) {
    const base = url ?? (await open()).where;
    if (!URL.canParse(base))
      throw new StoaError('unreachable', `No server runs on ${base}, so there is no URL to connect to.`, {
        fix: 'Start one with "stoa up", or pass --url.',
      });
    return { url: new URL('/mcp', base).href };
  }
  const data = dataOf(context);
  const [user, agent, configFile] = ['user', 'agent', 'config'].map((name) => textOption(globals, name));
  const isShared = scope !== undefined;
  if (isShared && fromHome(data) === data)
    output.warn(`${data} is not in your home directory, so the file fits only machines that have this path.`);
  // The editor chooses the working directory, so no path is relative to it. A file of a project is committed.
  const args = isShared
    ? ['-y', 'stoa', 'mcp', '--data', fromHome(data), '--scope', scope]
    : [programPath(), 'mcp', '--data', data];
  if (configFile !== undefined) args.push('--config', resolve(configFile));
  if (user !== undefined) args.push('--user', user);
  if (agent !== undefined) args.push('--agent', agent);
  return { command: isShared ? 'npx' : process.execPath, args };
}

/** The data directory that was given, or the default of connected programs. */
function dataOf({ settings }: Context): string {
  const { config, rows } = settings();
  const isGiven = rows.some(({ name, origin }) => name === 'data' && origin !== 'default');
  return isGiven ? resolve(config.data) : join(homedir(), connectedDirectory);
}

/** `~/stoa` for a path in the home directory; other paths as they are. */
function fromHome(path: string): string {
  const inside = relative(homedir(), path);
  return inside === '' || inside.startsWith('..') || isAbsolute(inside)
    ? path
    : `~/${inside.replaceAll('\\', '/')}`;
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
