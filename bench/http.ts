/** What the server costs above a bare Fastify route that answers the same bytes. */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bench, Row } from './frame.js';
import { type Load, type Measured, compare, requestBytes, startServer } from './http-load.js';
import { type Served, documentBody, documentPath } from './http-server.js';

type Server = Served & Measured;

const connections = 64;

const loads: readonly Load<Server>[] = [
  {
    what: 'GET /v1/agents/{id}',
    connections,
    sleepless: true,
    request: (server, index) =>
      requestBytes(`GET /v1/agents/${server.agentIds[index % server.agentIds.length]}`, server),
    atLeast: 0.75,
  },
  {
    what: 'GET /v1/data/{ns}/{key} of 1 KB',
    connections,
    sleepless: true,
    request: (server, index) => requestBytes(`GET ${documentPath(index)}`, server),
    atLeast: 0.7,
  },
  {
    what: 'PUT /v1/data/{ns}/{key} of 1 KB, durable',
    connections,
    request: (server, index) => requestBytes(`PUT ${documentPath(index)}`, server, documentBody),
    atLeast: 0.45,
  },
];

export const httpBench: Bench = {
  name: 'http',
  run: async () => {
    const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
    const children: ChildProcess[] = [];
    try {
      const stoa = await startServer<Served>(children, 'http-server.js', 'stoa', data);
      const bare = await startServer<Served>(children, 'http-server.js', 'bare', JSON.stringify(stoa));
      const rows: Row[] = [];
      for (const load of loads) rows.push(...(await compare(load, stoa, bare)));
      return rows;
    } finally {
      for (const child of children) child.kill();
      await rm(data, { recursive: true, force: true });
    }
  },
};
