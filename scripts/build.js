/** Compiles src to dist, bundles the program and the console, only when a source has changed since the last time. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fail, install, requireNode, root, run, say } from './install.js';

const dist = join(root, 'dist');
const bundle = join(root, 'bundle');
const stampPath = join(bundle, '.sources');

/** Left out of the bundle: native code, and what is installed only when a backend wants it. */
const external = [
  /^node:/,
  /^lmdb/,
  /^sodium-native/,
  /^@node-rs\//,
  /^@nxtedition\//,
  /^ioredis/,
  /^postgres/,
  /^@aws-sdk\//,
  /^@google-cloud\//,
];

export async function build() {
  const sources = hashSources();
  if (existsSync(dist) && existsSync(stampPath) && readFileSync(stampPath, 'utf8') === sources) return;
  say('Compiling …');
  // Into separate directories first: a failed or interrupted build leaves the old one usable.
  const [nextDist, nextBundle] = [`${dist}.${process.pid}`, `${bundle}.${process.pid}`];
  const cleanUp = () => {
    for (const directory of [nextDist, nextBundle]) rmSync(directory, { recursive: true, force: true });
  };
  run(
    process.execPath,
    [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '--outDir', nextDist],
    root,
    'The sources do not compile.',
    cleanUp,
  );
  try {
    await bundleProgram(join(nextDist, 'cli'), nextBundle);
    await bundleConsole(join(nextBundle, 'console'));
    storeCode(join(nextBundle, 'main.cjs'));
  } catch (error) {
    cleanUp();
    fail(`The program or the console could not be bundled: ${error.message}`);
  }
  writeFileSync(join(nextBundle, '.sources'), sources);
  for (const [next, place] of [
    [nextDist, dist],
    [nextBundle, bundle],
  ]) {
    rmSync(place, { recursive: true, force: true });
    renameSync(next, place);
  }
}

/**
 * The program in a few files instead of some five hundred: reading and linking those took more
 * than half of the time until the first answer. In CommonJS: Node 20 takes no stored code for other modules.
 */
async function bundleProgram(compiled, directory) {
  const { rolldown } = await import('rolldown');
  const program = await rolldown({
    input: { main: join(compiled, 'start.js'), program: join(compiled, 'main.js') },
    platform: 'node',
    external,
    // Its other build loads its parts by names that a bundler cannot follow.
    resolve: { alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' } },
    logLevel: 'silent',
  });
  const { output } = await program.write({
    dir: directory,
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name]-[hash].cjs',
    comments: { legal: true, annotation: false, jsdoc: false },
  });
  await program.close();
  for (const { fileName, code } of output) writeFileSync(join(directory, fileName), escaped(code));
}

/** Reading files that are not ASCII takes 7 ms of a start, because V8 then has two bytes for each character. */
function escaped(code) {
  return code.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Runs a server, and a command without one, and stores the code that V8 compiled for them (`src/cli/start.ts`). */
function storeCode(program) {
  const directory = mkdtempSync(join(tmpdir(), 'stoa-build-'));
  const data = ['--data', join(directory, 'data')];
  for (const args of [
    ['up', '--port', '0', '--json', ...data],
    ['data', 'set', 'key', 'value', ...data],
  ])
    execFileSync(process.execPath, [join(root, 'scripts', 'store-code.cjs'), program, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  rmSync(directory, { recursive: true });
}

/** The web page for people, which the server serves. */
async function bundleConsole(directory) {
  const { build: buildPage } = await import('vite');
  await buildPage({ configFile: join(root, 'console', 'vite.config.ts'), build: { outDir: directory } });
}

/** One hash over every path and content that the output depends on. */
function hashSources() {
  const hash = createHash('sha256');
  const files = ['src', 'console']
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .toSorted();
  for (const file of [
    ...files,
    join(root, 'tsconfig.json'),
    join(root, 'package-lock.json'),
    join(root, 'scripts', 'build.js'),
    join(root, 'scripts', 'store-code.cjs'),
  ]) {
    hash.update(file.slice(root.length)).update('\0').update(readFileSync(file)).update('\0');
  }
  return hash.digest('hex');
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  requireNode();
  install(root);
  await build();
}
