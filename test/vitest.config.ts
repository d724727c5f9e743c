import { dirname, join } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { waitMsMax } from './until.js';

const root = dirname(import.meta.dirname);
const [sources, compiled] = [join(root, 'src/'), join(root, 'dist/')];
/** It imports an optional peer that is installed for the tests only, where Node would not look. */
const langgraph = join(sources, 'langgraph/');

/**
 * Suites import `src`, and get what `npm test` has compiled from it into `dist`. Node loads those files itself. Loading the
 * sources through the runner took 4 s of processor time for a suite of its own process, this takes 1 s.
 */
const compiledSources = {
  name: 'compiled sources',
  enforce: 'pre' as const,
  resolveId(imported: string, importer: string | undefined) {
    if (importer === undefined || !imported.startsWith('.')) return undefined;
    const path = join(dirname(importer), imported);
    if (!path.startsWith(sources) || path.startsWith(langgraph)) return undefined;
    return compiled + path.slice(sources.length);
  },
};

/**
 * Suites that are short, start no program and close what they open. They share processes, in which the
 * sources are loaded once: to load them for each of a hundred suites took a tenth of the whole run.
 */
const light = [
  '{index,prose}.test.ts',
  'api/*.test.ts',
  'cluster/checker/*.test.ts',
  'core/**/*.test.ts',
  '{identity,langgraph,registry,server}/**/*.test.ts',
  'backup/leases.test.ts',
  'cli/{connection,editors,output}/*.test.ts',
  'client/**/!(browser).test.ts',
  'commit/!(crash).test.ts',
  'datastore/**/*.test.ts',
  'docs/named-files.test.ts',
  'feed/*.test.ts',
  'find/**/*.test.ts',
  'homes/directory/*.test.ts',
  'homes/directory/{datastore,doctor,identity,locks,messaging,registry,workspaces}/**/*.test.ts',
  'homes/directory/kernel/!(crash|fdatasync).test.ts',
  'homes/directory/kernel/{backup,feed,inspect,shards,timers}/*.test.ts',
  'homes/directory/kernel/directory/!(lock).test.ts',
  'homes/directory/kernel/engines/engines.test.ts',
  'homes/postgres/*.test.ts',
  'homes/postgres/{database,datastore,feed,identity,locks,registry,transfer,write}/*.test.ts',
  'homes/postgres/messaging/!(redis-cluster|redis-faults|two-servers).test.ts',
  'homes/postgres/commit/!(crash).test.ts',
  'homes/postgres/workspaces/!(servers).test.ts',
  'mcp/!(conformance|stdio|idle-stop).test.ts',
  'messaging/{clock-repair,doors,links,own-rooms,restart,rules,writes}.test.ts',
  'secrets/*.test.ts',
  'stores/*.test.ts',
  'stores/memory/*.test.ts',
  'transfer/*.test.ts',
  'workspaces/!(fleet).test.ts',
];

/**
 * Light suites last: only consecutive suites share a process, and none of these delays the end of the run.
 */
class LightLast extends BaseSequencer {
  override async sort(suites: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await BaseSequencer.prototype.sort.call(this, suites);
    return [false, true].flatMap((isLight) =>
      sorted.filter(({ project }) => (project.name === 'light') === isLight),
    );
  }
}

// Only emulators are used here: the drivers need not warn about the Node version or look for Google's
// machines.
Object.assign(process.env, {
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
  METADATA_SERVER_DETECTION: 'none',
});

const shared = { resolve: { dedupe: ['@langchain/langgraph-checkpoint'] }, plugins: [compiledSources] };
const common = {
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: waitMsMax, interval: 100 } },
  pool: 'forks' as const,
  // Suites wait for disks and servers more than they compute.
  maxWorkers: 4,
  execArgv: process.execArgv,
  server: { deps: { external: [/\/dist\//] } },
};

export default defineConfig({
  test: {
    maxWorkers: common.maxWorkers,
    globalSetup: ['./servers/provider.ts'],
    sequence: { sequencer: LightLast },
    projects: [
      {
        ...shared,
        test: {
          ...common,
          name: 'own process',
          // The pictures of the documentation are made by their own command.
          include: [
            '**/*.test.ts',
            ...(process.env['SCREENSHOTS'] === undefined ? [] : ['console/pictures.ts']),
          ],
          exclude: [...configDefaults.exclude, ...light],
        },
      },
      { ...shared, test: { ...common, name: 'light', include: light, isolate: false } },
    ],
  },
});
