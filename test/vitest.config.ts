import { dirname, join, relative } from 'node:path';
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
 * Suites that change what all code of their process sees. The others share processes, in which the sources are loaded
 * once: to start a process and to load them takes a second of processor time.
 */
const separate = ['docs/examples.test.ts', 'tracing/outer-span.test.ts'];

/**
 * The suites that take longest, the longest first. They start first, so that none of them is left alone at the end,
 * and those that wait for servers, clocks and browsers run beside those that compute.
 */
const long = [
  'homes/postgres/messaging/messaging',
  'console/load',
  'console/pages',
  'server/routes/permissions',
  'attack/attack',
  'homes/postgres/messaging/redis-cluster',
  'mcp/stdio',
  'cli/commands/server/up',
  'stores/firestore/datastore',
  'stores/dynamodb/datastore',
  'homes/postgres/vectors',
  'homes/postgres/commit/missing',
  'stalls/livez',
  'homes/postgres/faults',
  'homes/postgres/messaging/carried-once',
  'server/full-disk',
  'homes/directory/kernel/directory/durable-note',
  'stores/couchdb/datastore',
  'cluster/refusals',
  'server/memory',
  'find/stores',
  'docs/first-hour',
  'homes/postgres/transfer/move',
  'homes/postgres/find',
  'find/kill',
  'homes/directory/doctor/families',
  'homes/postgres/workspaces/workspaces',
  'homes/postgres/datastore/datastore',
  'find/removal',
  'cli/commands/watch',
  'homes/postgres/commit/outbox',
  'docs/shell',
  'find/store-kill',
  'messaging/clients',
  'cli/commands/work',
  'cli/commands/transfer/move',
  'homes/directory/messaging/messaging',
  'workspaces/bulk',
  'cluster/status',
  'homes/directory/kernel/engines/engines',
  'find/http',
  'attack/few-things',
  'stores/couchdb/faults',
  'langgraph/saver',
  'homes/postgres/messaging/redis-faults',
  'client/leases',
  'homes/postgres/messaging/redis',
  'cluster/streams',
  'homes/postgres/messaging/two-servers',
  'homes/directory/doctor/in-use',
  'mcp/many-servers',
  'homes/directory/registry/registry',
  'find/vectors/kill',
  'homes/postgres/commit/crash',
  'homes/postgres/registry/registry',
  'doors/refusals',
  'homes/postgres/database/connection',
  'client/watch/rooms',
  'homes/postgres/messaging/post-trips',
  'homes/directory/vectors',
  'homes/postgres/datastore/feed',
  'find/unindexed-namespace',
  'homes/directory/kernel/backup/backup',
  'workspaces/fleet',
  'homes/directory/kernel/engines/engine-failures',
  'homes/directory/nearest-vectors',
  'backup/drill',
  'homes/postgres/sweeps',
  'homes/postgres/transfer/transfer',
];

/** Only consecutive suites share a process, so those that do not are first. */
function place({ moduleId, project }: TestSpecification): number {
  if (project.name === 'separate') return -1;
  const at = long.indexOf(relative(import.meta.dirname, moduleId).replace('.test.ts', ''));
  return at === -1 ? long.length : at;
}

class LongFirst extends BaseSequencer {
  override async sort(suites: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await BaseSequencer.prototype.sort.call(this, suites);
    return sorted.toSorted((one, other) => place(one) - place(other));
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
  // Suites wait for servers, clocks and browsers for half of their time: so many keep two cores busy.
  maxWorkers: 6,
  execArgv: process.execArgv,
  server: { deps: { external: [/\/dist\//] } },
};
// The pictures of the documentation are made by their own command.
const include = [
  '**/*.test.ts',
  ...(process.env['SCREENSHOTS'] === undefined ? [] : ['console/pictures.ts']),
];

export default defineConfig({
  test: {
    maxWorkers: common.maxWorkers,
    globalSetup: ['./servers/provider.ts'],
    sequence: { sequencer: LongFirst },
    projects: [
      { ...shared, test: { ...common, name: 'separate', include: separate } },
      {
        ...shared,
        test: {
          ...common,
          name: 'shared',
          include,
          exclude: [...configDefaults.exclude, ...separate],
          isolate: false,
        },
      },
    ],
  },
});
