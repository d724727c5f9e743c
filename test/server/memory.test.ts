/** A server with little memory, and many clients that ask for large answers at once. */
import { expect, it } from 'vitest';
import { useProgram } from '../cli/program.js';

const { up, path } = useProgram();
const documents = 5;
const requestsAtOnce = 40;
const valueBytes = 1_000_000;

it('forty pages of 5 MB at once do not fill the memory of the server', async () => {
  const server = await up(path('data'), [], { NODE_OPTIONS: '--max-old-space-size=200' });
  const headers = { authorization: `Bearer ${server.token}`, 'stoa-user': 'alice' };
  const ask = async (method: string, target: string, body?: unknown): Promise<number> => {
    const response = await fetch(server.url + target, {
      method,
      headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    for await (const _chunk of response.body ?? []);
    return response.status;
  };
  const keys = Array.from({ length: documents }, (_, index) => `large-${index}`);
  for (const key of keys)
    await ask('PUT', `/v1/data/notes/${key}`, { value: 'x'.repeat(valueBytes), index: false });

  const asked = [
    () => ask('GET', '/v1/data/notes?values=true'),
    () => ask('GET', '/v1/documents'),
    () => ask('POST', '/v1/data/notes', { get: keys }),
    () => ask('POST', '/v1/find', { namespace: 'notes', filter: {}, values: true }),
  ];
  for (const request of asked) {
    const statuses = await Promise.all(Array.from({ length: requestsAtOnce }, request));
    expect(new Set(statuses)).toEqual(new Set([200]));
  }
  expect(await server.end('SIGTERM')).toBe(0);
});
