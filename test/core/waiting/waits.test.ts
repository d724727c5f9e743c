import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { Waits } from '../../../src/core/waiting/waits.js';
import { openStoa } from '../../../src/index.js';

const secondsMax = 20_000;

/** Collects garbage while the work runs, as a busy server does. */
async function whileCollecting<Result>(work: Promise<Result>): Promise<Result> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const timer = setInterval(collect, 20);
  try {
    return await work;
  } finally {
    clearInterval(timer);
  }
}

/** Resolves when the signal is aborted. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve());
  });
}

it('a wait ends after its time, with its signal, and with all others', async () => {
  const waits = new Waits();
  const client = new AbortController();
  await waits.run({ timeMs: 1 }, aborted);
  const disconnected = waits.run({ signal: client.signal }, aborted);
  const stopped = waits.run({}, aborted);
  expect(waits.size).toBe(2);
  client.abort();
  await disconnected;
  waits.stop();
  await stopped;
  await waits.run({}, aborted);
  expect(waits.size).toBe(0);
});

it('a wait leaves nothing in a signal that outlives the wait', async () => {
  const { signal } = new AbortController();
  await new Waits().run({ signal }, async () => undefined);
  await expect(new Waits().run({ signal }, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

it(
  'a reader without an inbox waits no longer than it asked for, whatever the garbage collector does',
  async () => {
    const stoa = await openStoa({ data: '', engine: 'memory' });
    const client = new AbortController();
    const span = { afterMs: 0, limit: 1 };
    const reader = operatorCaller('ada', 'nobody-yet');
    const page = await whileCollecting(stoa.messaging.direct.read(reader, span, 500, client.signal));
    expect(page.items).toEqual([]);
    await stoa.close();
  },
  secondsMax,
);
