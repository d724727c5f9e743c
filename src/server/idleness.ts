/** Notices that a server has had no client for a while. */
import type { Server } from 'node:http';

/** These requests come from monitors, not from clients. */
export const monitored: ReadonlySet<string> = new Set(['/livez', '/readyz', '/health', '/metrics']);

/** Resolves after this time without a request or an open stream. */
export function untilIdle(server: Pick<Server, 'on'>, seconds: number): Promise<string> {
  return new Promise((resolve) => {
    let open = 0;
    let timer: NodeJS.Timeout | undefined;
    const wait = (): void => {
      timer = setTimeout(() => resolve(`idle for ${seconds} seconds`), seconds * 1_000);
      timer.unref();
    };
    server.on('request', (request, response) => {
      if (monitored.has((request.url ?? '').split('?', 1)[0] ?? '')) return;
      open += 1;
      clearTimeout(timer);
      response.once('close', () => {
        open -= 1;
        if (open === 0) wait();
      });
    });
    wait();
  });
}
