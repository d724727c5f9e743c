/** The change feed under load: how late its readers are, and what a thousand of them cost a write. */
import { type Socket, createConnection } from 'node:net';
import { type Bench, type Row, median } from './frame.js';
import { type Measured, rates, requestBytes, warmUp } from './http-load.js';
import { type Served, withStore } from './store-server.js';

const connections = 32;
const watchers = 1_000;
const turns = 5;
const lagRounds = 5;
const lagMsMax = 250;

type Server = Served & Measured;

export const feedBench: Bench = {
  name: 'feed',
  run: () => withStore(async (server) => [await lagUnderLoad(server), await costOfWatchers(server)]),
};

/** Every write to the next prefix, so that each watcher has its turn. */
let written = 0;
const load = {
  connections,
  request: (server: Server) => {
    written += 1;
    return requestBytes(
      `PUT /v1/data/bench/watch-${written % watchers}.${written % 7}`,
      server,
      `{"value":{"text":"${'x'.repeat(200)}"}}`,
    );
  },
};

/**
 * From the moment of a commit to its event at a reader, in the 99th of a hundred changes, while 32
 * connections write without a pause.
 */
async function lagUnderLoad(server: Server): Promise<Row> {
  const lagsMs: number[] = [];
  const reader = await Watcher.open(server, '', (change) => lagsMs.push(Date.now() - Date.parse(change.at)));
  await warmUp(load, server);
  lagsMs.length = 0;
  for (let round = 0; round < lagRounds; round += 1) await rates(load, server);
  reader.close();
  const p99 = lagsMs.toSorted((a, b) => a - b)[Math.floor(lagsMs.length * 0.99)] ?? Number.NaN;
  return {
    what: `feed lag under full write load, p99 of ${lagsMs.length.toLocaleString('en')} changes / what is allowed`,
    ours: p99,
    reference: lagMsMax,
    unit: 'ms',
    target: { atMost: 1 },
  };
}

/** Processor time of the server for a write, with a watcher on each of a thousand prefixes and with none. */
async function costOfWatchers(server: Server): Promise<Row> {
  const [watched, alone]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < turns; turn += 1) {
    alone.push(1_000_000 / (await rates(load, server)).byCpu);
    const counts = new Map<string, number>();
    const open = await Promise.all(
      Array.from({ length: watchers }, (_, index) => {
        const prefix = `watch-${index}.`;
        return Watcher.open(server, prefix, ({ facts: { key } }) => {
          if (!key.startsWith(prefix)) throw new Error(`The watcher of ${prefix} received ${key}.`);
          counts.set(prefix, (counts.get(prefix) ?? 0) + 1);
        });
      }),
    );
    const before = written;
    const { answered, byCpu } = await rates(load, server);
    watched.push(1_000_000 / byCpu);
    await untilTold(counts, written - before);
    if (answered !== written - before)
      throw new Error(`${written - before} were sent and ${answered} answered.`);
    for (const watcher of open) watcher.close();
  }
  return {
    what: `PUT of a document, ${watchers.toLocaleString('en')} watchers of distinct prefixes / none, by processor time`,
    ours: median(watched),
    reference: median(alone),
    unit: 'µs',
    target: { atMost: 1.5 },
  };
}

/** Every change reaches one watcher, once. */
async function untilTold(counts: Map<string, number>, wanted: number): Promise<void> {
  const told = () => [...counts.values()].reduce((sum, count) => sum + count, 0);
  for (let waits = 0; told() < wanted && waits < 200; waits += 1)
    await new Promise((resolve) => setTimeout(resolve, 50));
  // One that came twice would come soon.
  await new Promise((resolve) => setTimeout(resolve, 100));
  if (told() !== wanted) throw new Error(`The watchers received ${told()} changes, expected ${wanted}.`);
}

interface Change {
  at: string;
  facts: { key: string };
}

/** A stream of changes read as bytes, so that a thousand of them fit beside the load. */
class Watcher {
  readonly #socket: Socket;
  #received = '';

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Resolves when the stream has begun. */
  static open(server: Server, prefix: string, onChange: (change: Change) => void): Promise<Watcher> {
    const { port, host } = new URL(server.url);
    return new Promise((resolve, reject) => {
      const socket = createConnection({ port: Number(port), host: '127.0.0.1' });
      const watcher = new Watcher(socket);
      socket.setEncoding('latin1').on('error', reject);
      socket.on('data', (chunk: string) => {
        watcher.#take(chunk, onChange);
        resolve(watcher);
      });
      socket.write(
        `GET /v1/changes?namespace=bench&prefix=${prefix} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${server.token}\r\naccept: text/event-stream\r\n\r\n`,
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #take(chunk: string, onChange: (change: Change) => void): void {
    this.#received += chunk;
    const end = this.#received.lastIndexOf('\n\n');
    if (end === -1) return;
    const whole = this.#received.slice(0, end + 1);
    this.#received = this.#received.slice(end + 2);
    for (const [, data = ''] of whole.matchAll(/^event: changes\nid: .*\ndata: (.*)$/gm)) {
      // The server's own schema says what an event holds.
      for (const change of (JSON.parse(data) as { items: Change[] }).items) onChange(change);
    }
  }
}
