/** The server of `commit.ts`, `feed.ts` and `large.ts` in its own process: an empty store on LMDB and a user. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ChildProcess } from 'node:child_process';
import { operatorCaller } from '../src/core/caller.js';
import { openStoa } from '../src/index.js';
import { createApp } from '../src/server/app.js';
import { settleProcess } from '../src/server/process-settings.js';
import { serve } from './child-server.js';
import { fileWords } from './file-words.js';
import { type Measured, startServer } from './http-load.js';

export interface Served {
  url: string;
  token: string;
  operatorToken: string;
}

/** With its processor time, and a way to let it finish its work. */
export type StoreServer = Served & Required<Measured>;

/** Starts it on a temporary directory, which is removed with it. */
export async function withStore<Result>(work: (server: StoreServer) => Promise<Result>): Promise<Result> {
  const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
  const children: ChildProcess[] = [];
  try {
    return await work(await startServer<Served>(children, 'store-server.js', 'store', data));
  } finally {
    for (const child of children) child.kill();
    await rm(data, { recursive: true, force: true });
  }
}

const [, , kind, argument = ''] = process.argv;
if (kind === 'store') {
  settleProcess();
  const stoa = await openStoa({ data: argument });
  const { token } = await stoa.identity.createToken(operatorCaller(), 'alice', {}, null);
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  serve({ url, token, operatorToken: stoa.operatorToken } satisfies Served, () => fileWords(stoa));
}
