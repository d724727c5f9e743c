/**
 * What the server costs above a bare Fastify route that answers the same bytes, and beside etcd: wrk with 64
 * connections, over records at random among 10,000.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Etcd, etcdGet, etcdPut, startEtcd } from './etcd.js';
import { type Bench, type Row, median } from './frame.js';
import { type Measured, type Rates, startServer } from './http-load.js';
import { type Served, documentBody, documentPath, documentValue, documents } from './http-server.js';
import { type Request, runWrk } from './wrk.js';

/** Of one run of wrk. The first run of each server counts for nothing. */
const seconds = Number(process.env['BENCH_SECONDS'] ?? 2);
const turns = 5;
const requestsPerRun = 20_000;

/** The request for a record. No two requests of a bench have the same number. */
type MakeRequest = (index: number, number: number) => Request;

interface Load {
  readonly what: string;
  readonly request: MakeRequest;
  readonly atLeast: number;
  readonly etcd?: { readonly request: MakeRequest; readonly atLeast: number };
}

interface Side {
  readonly server: Measured;
  readonly request: MakeRequest;
  readonly measured: Rates[];
}

export const httpBench: Bench = {
  name: 'http',
  run: async () => {
    const directory = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
    const children: ChildProcess[] = [];
    let etcd: Etcd | undefined;
    try {
      const stoa = await startServer<Served>(children, 'http-server.js', 'stoa', join(directory, 'stoa'));
      // An argument of a process has at most 128 KiB, too little for the ids.
      const given = JSON.stringify({ ...stoa, agentIds: [] });
      const bare = await startServer<Served>(children, 'http-server.js', 'bare', given);
      etcd = await startEtcd(join(directory, 'etcd'));
      const rows: Row[] = [];
      for (const load of loadsOf(stoa)) rows.push(...(await rowsOf(load, { stoa, bare, etcd }, directory)));
      return rows;
    } finally {
      for (const child of children) child.kill();
      await etcd?.stop();
      await rm(directory, { recursive: true, force: true });
    }
  },
};

function loadsOf({ token, agentIds }: Served): Load[] {
  const headers = { Authorization: `Bearer ${token}` };
  return [
    {
      what: 'GET /v1/agents/{id}',
      request: (index) => ({ method: 'GET', path: `/v1/agents/${agentIds[index]}`, headers }),
      atLeast: 0.75,
    },
    {
      what: 'durable PUT /v1/data/{ns}/{key} of 1 KB',
      request: (index, number) => ({
        method: 'PUT',
        path: documentPath(index),
        headers,
        body: documentBody(number),
      }),
      atLeast: 0.5,
      etcd: {
        request: (index, number) => etcdPut(documentPath(index), JSON.stringify(documentValue(number))),
        atLeast: 1.3,
      },
    },
    {
      // After the writes, so that etcd has the keys.
      what: 'GET /v1/data/{ns}/{key} of 1 KB',
      request: (index) => ({ method: 'GET', path: documentPath(index), headers }),
      atLeast: 0.7,
      etcd: { request: (index) => etcdGet(documentPath(index)), atLeast: 1.5 },
    },
  ];
}

async function rowsOf(
  load: Load,
  { stoa, bare, etcd }: { stoa: Measured; bare: Measured; etcd: Etcd | undefined },
  directory: string,
): Promise<Row[]> {
  const picked = Array.from({ length: requestsPerRun }, () => Math.floor(Math.random() * documents));
  const [ours, fastify] = [sideOf(stoa, load.request), sideOf(bare, load.request)];
  const other = etcd === undefined || load.etcd === undefined ? undefined : sideOf(etcd, load.etcd.request);
  const sides = [ours, fastify, ...(other === undefined ? [] : [other])];
  for (let turn = 0; turn <= turns; turn += 1)
    for (const each of sides) {
      const first = documents + turn * requestsPerRun;
      const requests = picked.map((index, at) => each.request(index, first + at));
      const rates = await ratesOf(each.server, requests, directory);
      if (turn > 0) each.measured.push(rates);
    }
  const rows = comparison(`${load.what} / bare Fastify route`, ours, fastify, load.atLeast);
  if (etcd === undefined || other === undefined || load.etcd === undefined) return rows;
  return [
    ...rows,
    ...comparison(`${load.what} / etcd ${etcd.version}, JSON gateway`, ours, other, load.etcd.atLeast),
  ];
}

function sideOf(server: Measured, request: MakeRequest): Side {
  return { server, request, measured: [] };
}

/** Two rows: by processor time, and by the clock, which also shows waiting and the use of several cores. */
function comparison(what: string, ours: Side, reference: Side, atLeast: number): Row[] {
  const row = (by: 'byCpu' | 'byClock', about: string): Row => ({
    what: `${what}, ${about}`,
    ours: median(ours.measured.map((rates) => rates[by])),
    reference: median(reference.measured.map((rates) => rates[by])),
    unit: 'req/s',
    target: { atLeast },
  });
  return [row('byCpu', 'by processor time'), row('byClock', 'by the clock')];
}

/** With the processor time that the server uses after the answers for the work that the requests made. */
async function ratesOf(server: Measured, requests: readonly Request[], directory: string): Promise<Rates> {
  await server.settle?.();
  const startedUs = await server.cpuUs();
  const run = await runWrk(server.url, requests, { directory, seconds, isOnce: false });
  await server.settle?.();
  const usedUs = (await server.cpuUs()) - startedUs;
  return {
    answered: run.answered,
    byClock: run.answered / run.seconds,
    byCpu: (run.answered / usedUs) * 1_000_000,
  };
}
