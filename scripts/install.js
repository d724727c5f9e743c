/** Installs the packages of a directory, unless the installed packages match its lock file. */
import { spawnSync } from 'node:child_process';
import { lstatSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Ends with a clear sentence on a Node that is too old, before anything of the project is loaded. */
export function requireNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  fail(
    `Stoa needs Node 20.19 or newer; this is ${process.versions.node}.`,
    'Install a newer Node from https://nodejs.org and try again.',
  );
}

export function install(directory) {
  if (isInstalled(directory)) return;
  const modules = join(directory, 'node_modules');
  if (lstatSync(modules, { throwIfNoEntry: false })?.isSymbolicLink()) {
    fail(
      `${modules} is a link and does not hold what package-lock.json wants.`,
      'Run npm ci where the link leads to.',
    );
  }
  say(`Installing the packages of ${directory} …`);
  run(
    'npm',
    // The scripts of the packages compile native code where no binary fits, also that of RocksDB, which only
    // --engine rocksdb needs; the packages of the tests have scripts that they need.
    [
      'ci',
      '--no-audit',
      '--no-fund',
      '--include=dev',
      '--loglevel=error',
      ...(directory === root ? ['--ignore-scripts'] : []),
    ],
    directory,
    'The packages could not be installed.',
  );
}

/** npm leaves a copy of the lock in node_modules that lists what it installed. */
function isInstalled(directory) {
  const wanted = readJson(join(directory, 'package-lock.json'))?.packages;
  const present = readJson(join(directory, 'node_modules', '.package-lock.json'))?.packages;
  if (wanted === undefined || present === undefined) return false;
  return Object.entries(wanted).every(([place, { version, optional, devOptional }]) => {
    if (place === '') return true;
    const found = present[place];
    // Optional packages of other platforms are in the lock and never installed.
    return found === undefined ? optional === true || devOptional === true : found.version === version;
  });
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Runs a command whose talk goes to stderr, so that stdout stays the program's own. Ends the program when it
 * fails.
 */
export function run(command, args, cwd, complaint, cleanUp = () => undefined) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  cleanUp();
  fail(`${complaint} (${command} ${args.join(' ')}${error === undefined ? '' : `: ${error.message}`})`);
}

export function say(sentence) {
  process.stderr.write(`${sentence}\n`);
}

export function fail(sentence, fix) {
  say(fix === undefined ? sentence : `${sentence}\n${fix}`);
  process.exit(1);
}
