/** A system that is searched in the bench, and the documents that it keeps for the next run. */
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import type { Row } from '../frame.js';
import type { Asked } from './queries.js';

export interface Search {
  readonly name: string;
  /** Systems of Stoa are compared with the others. */
  readonly isOurs: boolean;
  /** Returns the milliseconds that the answer took. */
  ask(asked: Asked): Promise<number>;
}

export interface Searched {
  readonly searches: readonly Search[];
  /** What was measured while the documents were filled in, in this run or in the one that did it. */
  readonly rows: readonly Row[];
  close(): Promise<void>;
}

/** The rows of the run that filled `path`, or of filling it now. What an interrupted run left is removed first. */
export async function filledOnce(path: string, fill: () => Promise<Row[]>): Promise<Row[]> {
  const done = `${path}.json`;
  if (existsSync(done)) return JSON.parse(await readFile(done, 'utf8')) as Row[];
  await rm(path, { recursive: true, force: true });
  const rows = await fill();
  await writeFile(done, JSON.stringify(rows));
  return rows;
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** The time and the processor time of this process that the work took, with its name on the error output. */
export async function told(what: string, work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  const tookMs = await timed(work);
  const { user, system } = process.cpuUsage(before);
  const cpuMs = (user + system) / 1_000;
  process.stderr.write(`${what}: ${Math.round(tookMs)} ms, ${Math.round(cpuMs)} ms of processor time here\n`);
  return tookMs;
}

/** Memory of this process that is not a mapped file, in MiB. */
export async function ownMemoryMiB(): Promise<number> {
  const status = await readFile('/proc/self/status', 'utf8');
  return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1_024;
}
