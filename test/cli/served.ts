/** A running server on a directory of the suite, and the commands that are run beside it. */
import { beforeAll } from 'vitest';
import { useCommands } from './command-host.js';
import type { Ended, RunningServer } from './program.js';

/** An agent as `--json` prints it. */
export interface Agent {
  agent_id: string;
  name: string;
  status: string;
  labels: Record<string, string>;
  spec: { cpu_millicores: number };
  version: number;
}

export interface ServedProgram extends ReturnType<typeof useCommands> {
  /** The data directory of the server. */
  data(): string;
  server(): RunningServer;
  /** Runs a command on that directory. */
  run(...args: string[]): Promise<Ended>;
  /** What a command prints with --json; throws if the command fails. */
  json<Body>(...args: string[]): Promise<Body>;
}

export function useServedProgram(): ServedProgram {
  const program = useCommands();
  let server: RunningServer;
  const data = (): string => program.path('data');
  const run = (...args: string[]): Promise<Ended> => program.stoa([...args, '--data', data()]);
  beforeAll(async () => {
    server = await program.up(data());
  });
  return {
    ...program,
    data,
    server: () => server,
    run,
    json: async <Body>(...args: string[]) => {
      const ended = await run(...args, '--json');
      if (ended.status !== 0)
        throw new Error(`stoa ${args.join(' ')} ended with ${ended.status}: ${ended.stderr}`);
      return ended.json<Body>();
    },
  };
}
