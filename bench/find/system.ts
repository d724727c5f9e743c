/** A system that is searched in the bench, and the documents that it keeps for the next run. */
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import type { CorpusShape } from '../../src/find/conformance/corpus.js';
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

/** Documents that are filled in together, by their numbers: from `from` up to, and without, `to`. */
export interface Part {
  readonly corpus: CorpusShape;
  readonly from: number;
  readonly to: number;
}

/** What is kept of filled parts. */
interface Progress {
  /** Documents. */
  readonly filled: number;
  /** Sums over the parts, by name: bytes, milliseconds. */
  readonly sums: Readonly<Record<string, number>>;
}

export interface Filling {
  /** Adds to the sums. A part that was cut off is filled again. */
  part(part: Part): Promise<Readonly<Record<string, number>>>;
  /** After the last part. */
  end(sums: Readonly<Record<string, number>>): Promise<Row[]>;
}

const documentsPerPart = 50_000;

/** The rows of the run that filled `path`, or of filling it now. A run that was cut off is continued. */
export async function filledOnce(path: string, corpus: CorpusShape, filling: Filling): Promise<Row[]> {
  const [done, noted] = [`${path}.json`, `${path}.progress`];
  if (existsSync(done)) return JSON.parse(await readFile(done, 'utf8')) as Row[];
  let progress: Progress = existsSync(noted)
    ? (JSON.parse(await readFile(noted, 'utf8')) as Progress)
    : { filled: 0, sums: {} };
  while (progress.filled < corpus.documents) {
    const { filled, sums } = progress;
    const to = Math.min(filled + documentsPerPart, corpus.documents);
    const added = await filling.part({ corpus, from: filled, to });
    const names = new Set([...Object.keys(sums), ...Object.keys(added)]);
    progress = {
      filled: to,
      sums: Object.fromEntries(Array.from(names, (name) => [name, (sums[name] ?? 0) + (added[name] ?? 0)])),
    };
    await writeFile(noted, JSON.stringify(progress));
    const memory = Math.round(await ownMemoryMiB());
    process.stderr.write(`${path}: ${to} documents, ${memory} MiB of own memory\n`);
  }
  const rows = await filling.end(progress.sums);
  await writeFile(done, JSON.stringify(rows));
  await rm(noted);
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
