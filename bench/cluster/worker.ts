/** A process of the cluster bench: a server of one kind that works for a time when it is asked to. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Place } from './cluster.js';

export type WorkerKind = 'stoa-tasks' | 'pg-boss' | 'writer' | 'watcher';

export interface Worker {
  /** Asks for work of so many milliseconds, and gets what came of it. */
  run<Result>(milliseconds: number): Promise<Result>;
  stop(): Promise<void>;
}

export async function startWorker(kind: WorkerKind, place: Place): Promise<Worker> {
  const file = fileURLToPath(new URL('worker-process.js', import.meta.url));
  const child = fork(file, [kind, JSON.stringify(place)]);
  await next(child, kind);
  return {
    run: async <Result>(milliseconds: number) => {
      child.send(milliseconds);
      // The process of this kind answers with it.
      return (await next(child, kind)) as Result;
    },
    stop: async () => {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}

async function next(child: ChildProcess, kind: WorkerKind): Promise<unknown> {
  const over = new AbortController();
  const { signal } = over;
  const ended = async (): Promise<never> => {
    const [status] = (await once(child, 'exit', { signal })) as [number | null];
    throw new Error(`The process of ${kind} ended with ${status}.`);
  };
  try {
    const [message] = (await Promise.race([once(child, 'message', { signal }), ended()])) as [unknown];
    return message;
  } finally {
    over.abort();
  }
}
