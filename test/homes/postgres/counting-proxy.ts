/** A way to a server that counts its round trips: a request that follows an answer begins one. */
import { type AddressInfo, connect, createServer } from 'node:net';

/** What one proxy has counted, or several together: requests that are under way side by side are one wait. */
export class Trips {
  count = 0;
  #isAnswered = true;

  requested(): void {
    if (this.#isAnswered) this.count += 1;
    this.#isAnswered = false;
  }

  answered(): void {
    this.#isAnswered = true;
  }
}

/** What carries an answered post to the feed. */
export const afterThePost = /\blrange\b|\blrem\b|message\.posted/;

/**
 * Requests with a text that `uncounted` matches are passed on and not counted. Answers come after `delayMs`, as over a
 * network, so that requests which do not wait for each other are all under way before the first answer.
 */
export async function countingProxy(
  url: string,
  counters: readonly Trips[],
  { uncounted, delayMs = 0 }: { uncounted?: RegExp; delayMs?: number } = {},
): Promise<{ url: string; close: () => void }> {
  const { hostname, port } = new URL(url);
  const proxy = createServer((inside) => {
    const outside = connect(Number(port), hostname);
    inside.on('data', (chunk) => {
      if (uncounted === undefined || !uncounted.test(chunk.toString('latin1')))
        for (const counter of counters) counter.requested();
      outside.write(chunk);
    });
    outside.on('data', (chunk) => {
      const pass = (): void => {
        for (const counter of counters) counter.answered();
        inside.write(chunk);
      };
      if (delayMs === 0) pass();
      else setTimeout(pass, delayMs);
    });
    for (const socket of [inside, outside])
      socket.on('close', () => {
        inside.destroy();
        outside.destroy();
      });
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const through = new URL(url);
  // A TCP server that listens has an AddressInfo.
  through.port = String((proxy.address() as AddressInfo).port);
  return { url: through.href, close: () => void proxy.close() };
}
