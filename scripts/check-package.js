/**
 * Checks the package as npm would publish it: what it says of itself, what it contains, and that it runs beside
 * the packages that npm installs with it and no others.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { fail, root } from './install.js';

const installBytesMax = 60_000_000;
const consoleBytesMax = 200_000;
const startSecondsMax = 60;
const manifest = readJson(join(root, 'package.json'));
const complaints = [];
const complain = (sentence) => complaints.push(sentence);

const directory = mkdtempSync(join(tmpdir(), 'stoa-package-'));
const modules = join(directory, 'node_modules');
const installed = join(modules, manifest.name);
let installBytes = 0;
let shipped = new Set();
try {
  shipped = pack();
  checkMetadata();
  checkFiles();
  await checkEntries();
  checkPrograms();
  checkConsole();
  checkSize();
  await checkStart();
  checkMissingPackage(['up', '--data', 'other', '--engine', 'rocksdb'], '@nxtedition/rocksdb');
  checkMissingPackage(
    ['up', '--postgres', 'postgres://127.0.0.1:1/x', '--redis', 'redis://127.0.0.1:1'],
    'postgres',
  );
} finally {
  rmSync(directory, { recursive: true, force: true });
}
if (complaints.length > 0) fail(complaints.join('\n'));
console.log(
  `The package is complete: ${shipped.size} files, ${Object.keys(manifest.exports).length} exports, ${Object.keys(manifest.bin).length} program; ${Math.round(installBytes / 1e6)} MB installed.`,
);

/** Unpacks the package into an empty project, beside links to the packages that are not for development. */
function pack() {
  const [packed] = JSON.parse(
    ran('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', directory], root),
  );
  mkdirSync(installed, { recursive: true });
  ran('tar', ['xzf', join(directory, packed.filename), '-C', installed, '--strip-components', '1'], root);
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');
  for (const [place, { dev, devOptional }] of Object.entries(
    readJson(join(root, 'package-lock.json')).packages,
  )) {
    const source = join(root, place);
    if (place === '' || dev === true || devOptional === true || !existsSync(source)) continue;
    installBytes += bytesIn(source);
    if (place.lastIndexOf('node_modules/') !== 0) continue;
    mkdirSync(dirname(join(directory, place)), { recursive: true });
    symlinkSync(source, join(directory, place));
  }
  installBytes += bytesIn(installed);
  return new Set(packed.files.map(({ path }) => path));
}

function checkMetadata() {
  for (const name of ['description', 'homepage', 'bugs', 'license', 'mcpName'])
    if (typeof manifest[name] !== 'string' || manifest[name] === '') complain(`package.json has no ${name}.`);
  if (!(manifest.keywords?.length > 0)) complain('package.json has no keywords.');
  if (manifest.publishConfig?.provenance !== true) complain('package.json does not publish with provenance.');
  const repository = /^git\+(https:\/\/github\.com\/([\w-]+\/[\w-]+))\.git$/.exec(
    manifest.repository?.url ?? '',
  );
  if (repository === null) return complain('repository.url of package.json is not a repository on GitHub.');
  const [, url, name] = repository;
  const server = readJson(join(root, 'server.json'));
  const said = {
    'mcpName of package.json': [manifest.mcpName, `io.github.${name}`],
    'homepage of package.json': [manifest.homepage, `${url}#readme`],
    'name of server.json': [server.name, manifest.mcpName],
    'repository of server.json': [server.repository?.url, url],
    'version of server.json': [server.version, manifest.version],
    'package of server.json': [server.packages?.[0]?.identifier, manifest.name],
    'version of the package of server.json': [server.packages?.[0]?.version, manifest.version],
  };
  for (const [what, [found, wanted]] of Object.entries(said))
    if (found !== wanted) complain(`The ${what} is ${found}, expected ${wanted}.`);
  // The registry of MCP servers refuses a longer one.
  if (!(server.description?.length <= 100))
    complain('The description of server.json has more than 100 characters.');
  for (const name of Object.keys(manifest.peerDependencies))
    if (manifest.peerDependenciesMeta[name]?.optional !== true) complain(`The peer ${name} is not optional.`);
}

function checkFiles() {
  const allowed =
    /^(assets\/|bin\/|firestore\.indexes\.json$|llms\.txt$|bundle\/|dist\/|docs\/|package\.json$|README\.md$|CHANGELOG\.md$|LICENSE$)/;
  for (const file of shipped) {
    if (!allowed.test(file)) complain(`${file} would be shipped.`);
    if (/\.test\.|\.tsbuildinfo$|(?<!\.d)\.ts$/.test(file))
      complain(`${file} is a test or a source and would be shipped.`);
  }
}

async function checkEntries() {
  for (const [name, entry] of Object.entries(manifest.exports)) {
    const targets = typeof entry === 'string' ? { default: entry } : entry;
    for (const [condition, target] of Object.entries(targets))
      if (!shipped.has(target.replace(/^\.\//, '')))
        complain(`exports["${name}"].${condition} is ${target}, which is not shipped.`);
    if (typeof entry !== 'string' && entry.types === undefined) complain(`exports["${name}"] has no types.`);
    if (!name.endsWith('.json')) checkImport(join(manifest.name, name));
  }
}

/** Through the package's own name, as a user's import goes. */
function checkImport(entry) {
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', `await import('${entry}')`],
    {
      cwd: directory,
      encoding: 'utf8',
    },
  );
  // An entry for users of an optional peer cannot be imported without it.
  const isWithoutPeer = Object.keys(manifest.peerDependenciesMeta).some((peer) =>
    stderr.includes(`Cannot find package '${peer}'`),
  );
  if (status !== 0 && !isWithoutPeer) complain(`import "${entry}" fails: ${stderr}`);
}

function checkPrograms() {
  for (const [name, target] of Object.entries(manifest.bin)) {
    const path = join(installed, target);
    if (!shipped.has(target)) complain(`bin "${name}" is ${target}, which is not shipped.`);
    if (!existsSync(path)) continue;
    if (!readFileSync(path, 'utf8').startsWith('#!/usr/bin/env node\n'))
      complain(`bin "${name}" does not begin with a line for node.`);
    try {
      accessSync(path, constants.X_OK);
    } catch {
      complain(`bin "${name}" is not executable.`);
    }
    const { status, stdout } = stoa(['--version']);
    if (status !== 0 || stdout.trim() !== manifest.version)
      complain(`${name} --version printed ${JSON.stringify(stdout)} and ended with ${status}.`);
  }
}

/** The web page for people, small enough for a slow line. */
function checkConsole() {
  const files = [...shipped].filter((file) => file.startsWith('bundle/console/'));
  const bytes = files.reduce((sum, file) => sum + gzipSync(readFileSync(join(installed, file))).length, 0);
  if (!shipped.has('bundle/console/index.html')) complain('The console is not shipped.');
  if (bytes > consoleBytesMax)
    complain(`The console has ${bytes} bytes gzipped, more than ${consoleBytesMax}.`);
}

function checkSize() {
  if (installBytes > installBytesMax)
    complain(`An installation has ${installBytes} bytes, more than ${installBytesMax}.`);
}

/** A server starts, and serves MCP, whose code is loaded with the first request. */
async function checkStart() {
  const server = spawn(
    process.execPath,
    [join(installed, manifest.bin.stoa), 'up', '--data', 'data', '--port', '0', '--json'],
    {
      cwd: directory,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const deadline = setTimeout(() => server.kill('SIGKILL'), startSecondsMax * 1_000);
  const ended = new Promise((resolve) => server.once('exit', resolve));
  try {
    const first = await new Promise((resolve, reject) => {
      server.stdout.once('data', resolve);
      void ended.then((status) => reject(new Error(`it ended with ${status}`)));
    });
    const { url } = JSON.parse(String(first));
    const token = readFileSync(join(directory, 'data', 'operator.token'), 'utf8').trim();
    const answer = await fetch(`${url}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    const text = await answer.text();
    if (!text.includes('inputSchema'))
      complain(`tools/list of the installed server answered ${answer.status}: ${text}`);
  } catch (error) {
    complain(`The installed server does not start: ${error.message}`);
  } finally {
    server.kill('SIGTERM');
    await ended;
    clearTimeout(deadline);
  }
}

function checkMissingPackage(args, name) {
  const { status, stderr } = stoa(args);
  if (status === 0 || !stderr.includes(`npm install ${name}`))
    complain(`stoa ${args.join(' ')} without ${name} ended with ${status} and said: ${stderr}`);
}

function stoa(args) {
  return spawnSync(process.execPath, [join(installed, manifest.bin.stoa), ...args], {
    cwd: directory,
    encoding: 'utf8',
    env: { ...process.env, STOA_SECRET_KEYS: '0'.repeat(64) },
    timeout: startSecondsMax * 1_000,
  });
}

/** As the file system counts them: in blocks. */
function bytesIn(path) {
  let bytes = 0;
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
    const parent = entry.parentPath ?? entry.path;
    // A nested package has its own entry in the lock.
    if (entry.isFile() && !parent.slice(path.length).includes('/node_modules/'))
      bytes += lstatSync(join(parent, entry.name)).blocks * 512;
  }
  return bytes;
}

function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}

function ran(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status !== 0) fail(`${command} ${args.join(' ')} failed:\n${stderr}`);
  return stdout;
}
