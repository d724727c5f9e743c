/** Claims over HTTP against a bare Fastify route that answers the same bytes. */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Row } from './frame.js';
import { compare, requestBytes, startServer } from './http-load.js';
import type { Served } from './tasks-server.js';

export async function claimsOverHttp(workers: number): Promise<Row[]> {
  const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
  const children: ChildProcess[] = [];
  try {
    const stoa = await startServer<Served>(children, 'tasks-server.js', 'stoa', join(data, 'tasks'));
    const bare = await startServer<Served>(children, 'tasks-server.js', 'bare', JSON.stringify(stoa));
    const what = `claims over HTTP, ${workers} workers`;
    return await compare(
      {
        what,
        connections: workers,
        request: (server) => requestBytes(`POST ${server.path}`, server, '{}'),
        atLeast: 0.3,
      },
      stoa,
      bare,
    );
  } finally {
    for (const child of children) child.kill();
    await rm(data, { recursive: true, force: true });
  }
}
