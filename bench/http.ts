/** What the server costs above a bare Fastify route that answers the same bytes. */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bench, Row } from './frame.js';
import { type Load, type Measured, compare, requestBytes, startServer } from './http-load.js';
import { type Served, anyDocumentPath, documentBody } from './http-server.js';

type Server = Served & Measured;

function anyAgent({ agentIds }: Server): string | undefined {
  return agentIds[Math.floor(Math.random() * agentIds.length)];
}

const connections = 64;

const loads: readonly Load<Server>[] = [
  {
    what: 'GET /v1/agents/{id}',
    connections,
    sleepless: true,
    request: (server) => requestBytes(`GET /v1/agents/${anyAgent(server)}`, server),
    atLeast: 0.75,
  },
  {
    what: 'GET /v1/data/{ns}/{key} of 1 KB',
    connections,
    sleepless: true,
    request: (server) => requestBytes(`GET ${anyDocumentPath()}`, server),
    atLeast: 0.7,
  },
  {
    what: 'PUT /v1/data/{ns}/{key} of 1 KB, durable',
    connections,
    request: (server) => requestBytes(`PUT ${anyDocumentPath()}`, server, documentBody),
    atLeast: 0.5,
  },
];

export const httpBench: Bench = {
  name: 'http',
  run: async () => {
    const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
    const children: ChildProcess[] = [];
    try {
      const stoa = await startServer<Served>(children, 'http-server.js', 'stoa', data);
      const { agentIds, ...rest } = stoa;
      // An argument of a process has at most 128 KiB, too little for the ids.
      const given = JSON.stringify({ ...rest, agentIds: [] } satisfies Served);
      const bare = { ...(await startServer<Served>(children, 'http-server.js', 'bare', given)), agentIds };
      const rows: Row[] = [];
      for (const load of loads) rows.push(...(await compare(load, stoa, bare)));
      return rows;
    } finally {
      for (const child of children) child.kill();
      await rm(data, { recursive: true, force: true });
    }
  },
};
