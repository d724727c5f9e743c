/** Processor time of a request over HTTP with one, two and three servers. */
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { type ChildServer, forkServer } from '../child-server.js';
import { type Row, median } from '../frame.js';
import { requestBytes } from '../http-load.js';
import { load } from '../messaging-load.js';
import type { Place } from './cluster.js';
import type { Served } from './http-server.js';

const connections = 16;
const keys = 10_000;
const turns = 5;
const milliseconds = 1_500;
const serversMax = 3;
const document = { text: 'x'.repeat(900) };

export async function processorRows(place: Place): Promise<Row[]> {
  await writeDocuments(place);
  const servers: ChildServer<Served>[] = [];
  for (let index = 0; index < serversMax; index += 1)
    servers.push(await forkServer<Served>('cluster/http-server.js', [JSON.stringify(place)]));
  try {
    /** Microseconds of all servers together for a request; one in four is a write. */
    const cost = async (count: number, each: number): Promise<number> => {
      const used = servers.slice(0, count);
      const before = await Promise.all(used.map((server) => server.cpuUs()));
      const results = await Promise.all(
        used.map(({ served }) => load(served.url, each, milliseconds, () => request(served))),
      );
      const after = await Promise.all(used.map((server) => server.cpuUs()));
      const answered = results.flatMap(({ statuses }) => [...statuses]);
      const failed = answered.filter(([status]) => status >= 400);
      if (failed.length > 0) throw new Error(`Requests failed: ${JSON.stringify(failed)}`);
      const requests = answered.reduce((sum, [, times]) => sum + times, 0);
      return after.reduce((sum, us, index) => sum + us - (before[index] ?? 0), 0) / requests;
    };
    const loads = [
      { count: 1, each: connections, measured: [] as number[] },
      { count: 2, each: connections / 2, measured: [] as number[] },
      { count: 3, each: Math.round(connections / 3), measured: [] as number[] },
      // Whether the number of servers matters, or how many requests share a group.
      { count: 1, each: Math.round(connections / 3), measured: [] as number[] },
      { count: 3, each: connections, measured: [] as number[] },
    ];
    for (let turn = 0; turn <= turns; turn += 1)
      for (const { count, each, measured } of loads) {
        const us = await cost(count, each);
        // The first turn warms up.
        if (turn > 0) measured.push(us);
      }
    const [reference, ...others] = loads.map((one) => ({ ...one, us: median(one.measured) }));
    return others.map(({ count, each, us }) => ({
      what: `processor time of a request, ${count} server(s) with ${each} connections each / 1 server with ${connections}`,
      ours: us,
      reference: reference?.us ?? 0,
      unit: 'µs',
      ...(count > 1 && { target: { atMost: 1.2 } }),
    }));
  } finally {
    for (const { child } of servers) child.kill();
  }
}

function request(served: Served): string {
  const key = `key-${Math.floor(Math.random() * keys)}`;
  return Math.random() < 0.25
    ? requestBytes(`PUT /v1/data/http/${key}`, served, JSON.stringify({ value: document }))
    : requestBytes(`GET /v1/data/http/${key}`, served);
}

/** What the requests read. */
async function writeDocuments(place: Place): Promise<void> {
  const stoa = await openStoa(place);
  const step = 500;
  for (let from = 0; from < keys; from += step) {
    const entries = Array.from({ length: step }, (_, index) => [`key-${from + index}`, document]);
    await stoa.data.setMany(operatorCaller('bench'), 'http', Object.fromEntries(entries));
  }
  await stoa.close();
}
