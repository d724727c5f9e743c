/**
 * `npm run bench` measures everything but the large data sets, `npm run bench -- --large` those too, and
 * `npm run bench -- kernel` one bench, `npm run bench -- cluster/tasks` a part of one. Prints a table of ratios in Markdown, writes `.bench/results.json`, and ends
 * non-zero when a target is missed. `--write` puts the table into `docs/performance.md`.
 *
 * To add rows: write `bench/<name>.ts` that exports a `Bench` (see `frame.ts`) and add it to `benches`.
 * Measure alternately (`byTurns`) against a reference of the same run; keep data sets in the directory
 * that `run` is given.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import type { ClusterPart } from './cluster/cluster.js';
import { type Bench, type Row, isLarge } from './frame.js';

/** Loaded one by one, so that a bench pays nothing for the others. */
const benches: Record<string, () => Promise<Bench>> = {
  backup: async () => (await import('./backup.js')).backupBench,
  cluster: async () => (await import('./cluster/cluster.js')).clusterBench(),
  ...clusterParts('trips', 'documents', 'tasks', 'commits', 'lag', 'processor-time'),
  commit: async () => (await import('./commit.js')).commitBench,
  datastore: async () => (await import('./datastore.js')).datastoreBench,
  feed: async () => (await import('./feed.js')).feedBench,
  find: async () => (await import('./find.js')).findBench,
  http: async () => (await import('./http.js')).httpBench,
  kernel: async () => (await import('./kernel.js')).kernelBench,
  langgraph: async () => (await import('./langgraph.js')).langgraphBench,
  large: async () => (await import('./large.js')).largeBench,
  mcp: async () => (await import('./mcp.js')).mcpBench,
  messaging: async () => (await import('./messaging.js')).messagingBench,
  'messaging-spread': async () => (await import('./messaging-spread.js')).messagingSpreadBench,
  registry: async () => (await import('./registry.js')).registryBench,
  tasks: async () => (await import('./tasks.js')).tasksBench,
  startup: async () => (await import('./startup.js')).startupBench,
};

/** Parts of the bench of several servers, which together take long: `cluster/tasks`. */
function clusterParts(...parts: ClusterPart[]): Record<string, () => Promise<Bench>> {
  return Object.fromEntries(
    parts.map((part) => [
      `cluster/${part}`,
      async () => (await import('./cluster/cluster.js')).clusterBench([part]),
    ]),
  );
}

interface Result extends Row {
  bench: string;
  ratio: number;
  reached: boolean;
}

/** Nothing but large data sets, which take long to make. */
const largeOnly: readonly string[] = ['find', 'large', 'registry'];

const directory = join(process.cwd(), '.bench');
const resultsPath = join(directory, 'results.json');
const pagePath = join(process.cwd(), 'docs', 'performance.md');
const flags = ['--large', '--write'];
const wanted = process.argv.slice(2).filter((argument) => !flags.includes(argument));
const unknown = wanted.filter((name) => !(name in benches));
if (unknown.length > 0) {
  process.stderr.write(`Unknown bench ${unknown.join(', ')}. Use ${Object.keys(benches).join(', ')}.\n`);
  process.exitCode = 2;
} else {
  const whole = Object.keys(benches).filter((name) => !name.includes('/'));
  const usual = whole.filter((name) => isLarge || !largeOnly.includes(name));
  await measure(wanted.length === 0 ? usual : wanted);
  // A compared library may leave a connection or a timer open that this program cannot end.
  process.exit();
}

async function measure(names: readonly string[]): Promise<void> {
  const results: Result[] = [];
  const failed: string[] = [];
  for (const name of names) {
    process.stderr.write(`${timeOfDay()} measuring ${name} …\n`);
    const startedMs = performance.now();
    try {
      const measured = await resultsOf(name);
      // At once, so that a run that is cut off keeps what it has measured.
      await keep([name], measured);
      results.push(...measured);
    } catch (error) {
      // The others are measured all the same: together they take an hour.
      failed.push(name);
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    }
    const outcome = failed.includes(name) ? 'failed' : 'measured';
    const seconds = Math.round((performance.now() - startedMs) / 1_000);
    process.stderr.write(`${timeOfDay()} ${outcome} ${name} in ${seconds} s\n`);
  }
  const table = tableOf(results) + failed.map((name) => `\nThe bench ${name} failed.\n`).join('');
  process.stdout.write(table);
  if (process.argv.includes('--write')) await writePage(table);
  if (failed.length > 0 || results.some(({ reached }) => !reached)) process.exitCode = 1;
}

async function resultsOf(name: string): Promise<Result[]> {
  const bench = await (benches[name] as () => Promise<Bench>)();
  const own = join(directory, bench.name);
  await mkdir(own, { recursive: true });
  return (await bench.run(own)).map((row) => judge(name, row));
}

function timeOfDay(): string {
  return new Date().toISOString().slice(11, 19);
}

function judge(bench: string, row: Row): Result {
  const ratio = row.ours / row.reference;
  const { target } = row;
  return {
    bench,
    ...row,
    ratio,
    reached: target === undefined || ('atLeast' in target ? ratio >= target.atLeast : ratio <= target.atMost),
  };
}

function tableOf(results: readonly Result[]): string {
  const lines = results.map(({ what, ours, reference, unit, ratio, target, reached }) => [
    what,
    `${round(ours)} ${unit}`,
    `${round(reference)} ${unit}`,
    ratio.toFixed(2),
    target === undefined ? '–' : 'atLeast' in target ? `≥ ${target.atLeast}` : `≤ ${target.atMost}`,
    target === undefined ? '–' : reached ? 'yes' : 'NO',
  ]);
  const rows = [['what', 'Stoa', 'reference', 'ratio', 'target', 'reached'], ...lines];
  const widths = (rows[0] as string[]).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] as string).length)),
  );
  const [head, ...rest] = rows.map(
    (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column] as number)).join(' | ')} |`,
  );
  return `${[head, `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rest].join('\n')}\n`;
}

/** Replaces what is between the two marks of the page. */
async function writePage(table: string): Promise<void> {
  const page = await readFile(pagePath, 'utf8');
  const date = new Date().toLocaleDateString('en-GB', { dateStyle: 'long' });
  const machine = `${cpus().length} cores of ${cpus()[0]?.model.trim()}, Node ${process.version.slice(1)}`;
  const marked = /(<!-- measured -->\n)[^]*(<!-- end of measured -->\n)/;
  if (!marked.test(page)) throw new Error(`${pagePath} lacks the marks of the measured table.`);
  await writeFile(
    pagePath,
    page.replace(
      marked,
      (_all, begin: string, end: string) => `${begin}\n${date}, ${machine}.\n\n${table}\n${end}`,
    ),
  );
}

function round(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}

/** Results of benches that did not run this time stay. */
async function keep(names: readonly string[], results: readonly Result[]): Promise<void> {
  const before = await readFile(resultsPath, 'utf8').then(
    (text) => (JSON.parse(text) as { results: Result[] }).results,
    () => [],
  );
  const kept = [...before.filter(({ bench }) => !names.includes(bench)), ...results];
  const machine = { processors: cpus().length, model: cpus()[0]?.model, node: process.version };
  await writeFile(
    resultsPath,
    `${JSON.stringify({ measured_at: new Date().toISOString(), machine, results: kept }, null, 2)}\n`,
  );
}
