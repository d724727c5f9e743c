/**
 * A graph of LangGraph with 50 steps, one after the other: its checkpoints in Stoa, over HTTP and in the process of the
 * graph, against LangGraph's own saver on a SQLite file, which works in the process of the graph. By default that saver
 * does not wait for the disk after a step, so it also runs with the promise that Stoa gives: what is acknowledged is
 * durable.
 */
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Stoa as Client } from '../src/client/index.js';
import type { Stoa, StoaOptions, operatorCaller } from '../src/index.js';
import { type Bench, type Row, median } from './frame.js';
import { importFrom, installPackages } from './packages.js';
import { type Served, type StoreServer, withStore } from './store-server.js';

const steps = 50;
const turns = 9;

const packages = [
  '@langchain/core@1.2.13',
  '@langchain/langgraph@1.4.18',
  '@langchain/langgraph-checkpoint@1.1.5',
  '@langchain/langgraph-checkpoint-sqlite@1.0.4',
  '@langchain/langgraph-sdk@1.12.0',
];

/** The parts of the packages that are used here. */
interface LangGraph {
  Annotation: { Root(channels: object): object; (options: object): object };
  StateGraph: new (state: object) => GraphBuilder;
  START: string;
  END: string;
}
interface GraphBuilder {
  addNode(name: string, run: (state: State) => Partial<State>): GraphBuilder;
  addEdge(from: string, to: string): GraphBuilder;
  addConditionalEdges(from: string, next: (state: State) => string): GraphBuilder;
  compile(options: { checkpointer: object }): Graph;
}
interface Graph {
  invoke(input: object, config: object): Promise<State>;
}
interface Sqlite {
  SqliteSaver: { fromConnString(path: string): { db: { pragma(text: string): unknown } } };
}
interface Library {
  openStoa(options: StoaOptions): Promise<Stoa>;
  operatorCaller: typeof operatorCaller;
}
interface LangGraphOfStoa {
  StoaSaver: new (options: object) => object;
  inProcess(stoa: Stoa, caller: object): object;
}
interface State {
  count: number;
  notes: string[];
}

/** One way to keep checkpoints. */
interface Side {
  readonly graph: Graph;
  /** Of all processes, in microseconds. */
  cpuUs(): Promise<number>;
  readonly measured: { ms: number; cpuMs: number }[];
}

export const langgraphBench: Bench = {
  name: 'langgraph',
  run: (directory) => withStore((server) => rowsOf(server, directory)),
};

async function rowsOf(server: StoreServer, directory: string): Promise<Row[]> {
  const installed = installPackages(directory, packages);
  installOwn(installed);
  const langgraph = await importFrom<LangGraph>(installed, '@langchain/langgraph');
  const side = (checkpointer: object, serverUs: () => Promise<number>): Side => ({
    graph: graphOf(langgraph, checkpointer),
    cpuUs: async () => (await serverUs()) + ownUs(),
    measured: [],
  });
  const { StoaSaver, inProcess } = await importFrom<LangGraphOfStoa>(installed, 'stoa/langgraph');
  const ours = side(new StoaSaver({ client: await clientOf(installed, server) }), () => server.cpuUs());
  const { stoa, caller } = await openedStoa(installed);
  const embedded = side(new StoaSaver({ client: inProcess(stoa, caller) }), noServer);
  const usual = side(await sqliteSaver(installed, 'usual', 'NORMAL'), noServer);
  const durable = side(await sqliteSaver(installed, 'durable', 'FULL'), noServer);
  for (let turn = 0; turn <= turns; turn += 1)
    for (const each of [ours, embedded, usual, durable]) {
      const measured = await run(each, `thread-${turn}`);
      if (turn > 0) each.measured.push(measured);
    }
  await stoa.close();
  const [local, remote] = ['in one process', 'over HTTP'];
  const waiting = 'its SQLite saver that waits for the disk';
  return [
    ...comparison(remote, ours, 'its SQLite saver', usual, { atMost: 1 }),
    ...comparison(remote, ours, waiting, durable),
    ...comparison(local, embedded, 'its SQLite saver', usual),
    ...comparison(local, embedded, waiting, durable, { atMost: 1 }),
  ];
}

function comparison(
  where: string,
  ours: Side,
  what: string,
  reference: Side,
  target?: { atMost: number },
): Row[] {
  const row = (by: 'ms' | 'cpuMs', about: string): Row => ({
    what: `LangGraph, ${steps} steps ${where}, ${about} / with ${what}`,
    ours: median(ours.measured.map((each) => each[by])),
    reference: median(reference.measured.map((each) => each[by])),
    unit: 'ms',
    ...(target !== undefined && { target }),
  });
  return [row('ms', 'by the clock'), row('cpuMs', 'processor time of all processes')];
}

async function run({ graph, cpuUs }: Side, thread: string): Promise<{ ms: number; cpuMs: number }> {
  const startedUs = await cpuUs();
  const startedMs = performance.now();
  const end = await graph.invoke(
    { count: 0 },
    { configurable: { thread_id: thread }, recursionLimit: steps * 2 },
  );
  const ms = performance.now() - startedMs;
  if (end.count !== steps) throw new Error(`The graph took ${end.count} steps.`);
  return { ms, cpuMs: ((await cpuUs()) - startedUs) / 1_000 };
}

const noServer = () => Promise.resolve(0);

function ownUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** One node that runs again and again: a counter, and a list that grows. */
function graphOf({ Annotation, StateGraph, START, END }: LangGraph, checkpointer: object): Graph {
  const state = Annotation.Root({
    count: Annotation({ reducer: (_before: number, next: number) => next, default: () => 0 }),
    notes: Annotation({
      reducer: (before: string[], next: string[]) => [...before, ...next],
      default: (): string[] => [],
    }),
  });
  return new StateGraph(state)
    .addNode('step', ({ count }) => ({ count: count + 1, notes: [`note of step ${count}`] }))
    .addEdge(START, 'step')
    .addConditionalEdges('step', ({ count }) => (count < steps ? 'step' : END))
    .compile({ checkpointer });
}

async function clientOf(installed: string, { url, token }: Served): Promise<Client> {
  const { Stoa } = await importFrom<{ Stoa: new (options: object) => Client }>(installed, 'stoa/client');
  return new Stoa({ url, token });
}

/** In this process, on an empty directory, as the databases of the SQLite savers are empty. */
async function openedStoa(installed: string): Promise<{ stoa: Stoa; caller: object }> {
  const library = await importFrom<Library>(installed, 'stoa');
  const data = join(installed, 'data');
  rmSync(data, { recursive: true, force: true });
  return { stoa: await library.openStoa({ data }), caller: library.operatorCaller('alice') };
}

async function sqliteSaver(installed: string, name: string, synchronous: 'NORMAL' | 'FULL'): Promise<object> {
  const path = join(installed, `${name}.sqlite`);
  for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
  const { SqliteSaver } = await importFrom<Sqlite>(installed, '@langchain/langgraph-checkpoint-sqlite');
  const saver = SqliteSaver.fromConnString(path);
  saver.db.pragma('journal_mode = WAL');
  saver.db.pragma(`synchronous = ${synchronous}`);
  return saver;
}

/** The package as `npm run build` made it, beside the packages that it works with. */
function installOwn(installed: string): void {
  const target = join(installed, 'node_modules', 'stoa');
  rmSync(target, { recursive: true, force: true });
  for (const part of ['package.json', 'dist'])
    cpSync(join(process.cwd(), part), join(target, part), { recursive: true });
}
