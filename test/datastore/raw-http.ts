/** The data store over HTTP, with paths that are sent unchanged. */
import { request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll } from 'vitest';
import { type Stoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';

export interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Record<string, unknown>;
}

/** A server in memory for a suite, and the way to call it. */
export function useRawHttp(): {
  stoa: () => Stoa;
  url: () => string;
  /** Sends the path unchanged; `fetch` would normalise it. */
  call: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Reply>;
} {
  let stoa: Stoa;
  let port: number;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    stoa = await openStoa({ data: 'unused', engine: 'memory' });
    const app = createApp(stoa);
    await app.listen({ host: '127.0.0.1', port: 0 });
    port = (app.server.address() as AddressInfo).port; // A TCP server that listens has an AddressInfo.
    stop = async () => {
      await stopApp(app, 5);
      await stoa.close();
    };
  });
  afterAll(() => stop());

  function call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const payload =
        body === undefined ? undefined : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
      const request = httpRequest(
        {
          host: '127.0.0.1',
          port,
          method,
          path,
          headers: {
            authorization: `Bearer ${stoa.operatorToken}`,
            ...(payload && { 'content-type': 'application/json', 'content-length': payload.length }),
            ...headers,
          },
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('end', () => {
            const text = Buffer.concat(chunks).toString();
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
            });
          });
        },
      );
      request.on('error', reject);
      request.end(payload);
    });
  }

  return { stoa: () => stoa, url: () => `http://127.0.0.1:${port}`, call };
}
