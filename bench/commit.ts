/** What a commit of several operations costs against a commit of one. */
import { type Bench, type Row, median } from './frame.js';
import { type Measured, type Rates, rates, requestBytes, warmUp } from './http-load.js';
import { type Served, withStore } from './store-server.js';

const connections = 32;
const turns = 9;
const keys = 1_000;

export const commitBench: Bench = {
  name: 'commit',
  run: () =>
    withStore(async (server) => {
      const [one, three] = [loadOf(1), loadOf(3)];
      for (const load of [one, three]) await warmUp(load, server);
      const measured: { ours: Rates; reference: Rates }[] = [];
      for (let turn = 0; turn < turns; turn += 1)
        measured.push({ reference: await rates(one, server), ours: await rates(three, server) });
      const cost = (side: 'ours' | 'reference', by: 'byCpu' | 'byClock') =>
        1_000_000 / median(measured.map((turn) => turn[side][by]));
      const row = (by: 'byCpu' | 'byClock', about: string): Row => ({
        what: `POST /v1/commit of three operations / of one, ${about}`,
        ours: cost('ours', by),
        reference: cost('reference', by),
        unit: 'µs',
        target: { atMost: 1.5 },
      });
      return [row('byCpu', 'by processor time'), row('byClock', 'by the clock')];
    }),
};

/** Each operation sets another document, among a thousand, to text that is not stored yet. */
function loadOf(operations: number): {
  connections: number;
  request: (server: Served & Measured, index: number) => string;
} {
  const body = (index: number) =>
    JSON.stringify({
      operations: Array.from({ length: operations }, (_, step) => ({
        op: 'data.set',
        namespace: 'bench',
        key: `key-${(index * operations + step) % keys}`,
        value: { step, text: `${index} ${'x'.repeat(200)}` },
      })),
    });
  return { connections, request: (server, index) => requestBytes('POST /v1/commit', server, body(index)) };
}
