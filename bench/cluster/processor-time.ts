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

interface Load {
  readonly servers: number;
  readonly connectionsEach: number;
  /** Microseconds of a request in each turn. */
  readonly measured: number[];
}

function loadOf(servers: number, connectionsEach: number): Load {
  return { servers, connectionsEach, measured: [] };
}

export async function processorRows(place: Place): Promise<Row[]> {
  await writeDocuments(place);
  const servers: ChildServer<Served>[] = [];
  for (let index = 0; index < serversMax; index += 1)
    servers.push(await forkServer<Served>('cluster/http-server.js', [JSON.stringify(place)]));
  try {
    const reference = loadOf(1, connections);
    const others = [
      loadOf(2, connections / 2),
      loadOf(3, Math.round(connections / 3)),
      // Whether the number of servers matters, or how many requests share a group.
      loadOf(1, Math.round(connections / 3)),
      loadOf(3, connections),
    ];
    const all = [reference, ...others];
    const idle = await idleShare(servers);
    for (let turn = 0; turn <= turns; turn += 1)
      // In another order each time: a load also pays for what the one before has left in the caches and on disk.
      for (const one of [...all.slice(turn % all.length), ...all.slice(0, turn % all.length)]) {
        const us = await costOf(servers, one, idle);
        // The first turn warms up.
        if (turn > 0) one.measured.push(us);
      }
    const referenceUs = median(reference.measured);
    return others.map(({ servers: count, connectionsEach, measured }) => ({
      what: `processor time of a request, ${count} server(s) with ${connectionsEach} connections each / 1 server with ${connections}`,
      // The loads of one turn met the same machine, so the ratio is taken in each turn.
      ours: referenceUs * median(measured.map((us, turn) => us / (reference.measured[turn] ?? 0))),
      reference: referenceUs,
      unit: 'µs',
      ...(count > 1 && { target: { atMost: 1.2 } }),
    }));
  } finally {
    for (const { child } of servers) child.kill();
  }
}

/**
 * Microseconds of a request; one in four is a write. All servers count, until they have done what the requests left for
 * later, such as filing words: any server may do that.
 */
async function costOf(servers: readonly ChildServer<Served>[], one: Load, idle: number): Promise<number> {
  const [beforeUs, startedMs] = [await usedUs(servers), performance.now()];
  const results = await Promise.all(
    servers
      .slice(0, one.servers)
      .map(({ served }) => load(served.url, one.connectionsEach, milliseconds, () => request(served))),
  );
  const answered = results.flatMap(({ statuses }) => [...statuses]);
  const failed = answered.filter(([status]) => status >= 400);
  if (failed.length > 0) throw new Error(`Requests failed: ${JSON.stringify(failed)}`);
  const requests = answered.reduce((sum, [, times]) => sum + times, 0);
  await untilQuiet(servers, idle);
  const passedUs = (performance.now() - startedMs) * 1_000;
  return ((await usedUs(servers)) - beforeUs - passedUs * idle) / requests;
}

async function usedUs(servers: readonly ChildServer<Served>[]): Promise<number> {
  return (await Promise.all(servers.map((server) => server.cpuUs()))).reduce((sum, us) => sum + us, 0);
}

/** Processor time of all servers together in a time, as a share of that time. */
async function shareIn(servers: readonly ChildServer<Served>[], watchedMs: number): Promise<number> {
  const [beforeUs, startedMs] = [await usedUs(servers), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, watchedMs));
  return ((await usedUs(servers)) - beforeUs) / ((performance.now() - startedMs) * 1_000);
}

/** What the servers use when nobody asks. */
async function idleShare(servers: readonly ChildServer<Served>[]): Promise<number> {
  // What a start does once is over.
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  return shareIn(servers, 5_000);
}

async function untilQuiet(servers: readonly ChildServer<Served>[], idle: number): Promise<void> {
  for (let looks = 0; looks < 20; looks += 1) if ((await shareIn(servers, 1_000)) < idle * 1.5 + 0.02) return;
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
