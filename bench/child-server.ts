/** Servers in separate processes: what they serve, and the processor time that they have used. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

type Question = 'cpu' | 'settle';

export interface ChildServer<Served> {
  child: ChildProcess;
  served: Served;
  /** Of all its threads, in microseconds. */
  cpuUs(): Promise<number>;
  /** Ends the work that the server does after its answers; resolves when nothing of it is left. */
  settle(): Promise<unknown>;
}

/**
 * Starts a server of the file, which tells what it serves and answers each message, one at a time.
 */
export async function forkServer<Served>(
  file: string,
  given: readonly string[],
): Promise<ChildServer<Served>> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), given);
  const served = await heard<Served>(child, file);
  const ask = (question: Question) => {
    const told = heard<number>(child, file);
    child.send(question);
    return told;
  };
  return { child, served, cpuUs: () => ask('cpu'), settle: () => ask('settle') };
}

/** The next message of a child, or an error when it ends instead. */
async function heard<Message>(child: ChildProcess, file: string): Promise<Message> {
  const over = new AbortController();
  const { signal } = over;
  const ended = async (): Promise<never> => {
    const [status] = (await once(child, 'exit', { signal })) as [number | null];
    throw new Error(`The server of ${file} ended with ${status}.`);
  };
  try {
    const [message] = (await Promise.race([once(child, 'message', { signal }), ended()])) as [Message];
    return message;
  } finally {
    over.abort();
  }
}

/** The other half, in the process of the server. */
export function serve(served: unknown, settle: () => Promise<void> = async () => undefined): void {
  process.send?.(served);
  process.on('message', (question: Question) => {
    void (question === 'settle' ? settle() : Promise.resolve()).then(() => {
      const { user, system } = process.cpuUsage();
      process.send?.(user + system);
    });
  });
  // The server ends with the process that measures.
  process.on('disconnect', () => process.exit(0));
}
