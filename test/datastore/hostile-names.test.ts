import { describe, expect, test } from 'vitest';
import { encodeSegment } from '../../src/core/text/path-segment.js';
import { useRawHttp } from './raw-http.js';

const { stoa, url, call } = useRawHttp();

describe('a hostile name reaches its own document and no other route', () => {
  const names = [
    '..',
    '.',
    '/',
    '//',
    '../..',
    'a/../b',
    '%2F',
    '%2e%2e',
    '~',
    '~~',
    '~Li4',
    '😀',
    '?',
    '#',
    '&',
    ' ',
    '+',
    '\\',
    'status',
    'v1',
    '*',
    ';',
    ':',
    '{key}',
    '%',
    '"',
    '<script>',
    'é'.repeat(100),
    'constructor',
  ];

  test.each(names)('%s', async (name) => {
    const inKey = `/v1/data/hostile/${encodeSegment(name)}`;
    const inNamespace = `/v1/data/${encodeSegment(name)}/k`;
    for (const path of [inKey, inNamespace]) {
      expect((await call('PUT', path, { value: name })).status).toBe(201);
      expect((await call('GET', path)).body).toMatchObject({
        value: name,
        namespace: path === inKey ? 'hostile' : name,
        key: path === inKey ? name : 'k',
      });
      // The same through a client that rewrites what it takes for dots and escapes.
      const rewritten = await fetch(`${url()}${path}`, {
        headers: { authorization: `Bearer ${stoa().operatorToken}` },
      });
      expect(((await rewritten.json()) as { value: unknown }).value).toBe(name);
      expect((await call('DELETE', path)).status).toBe(204);
    }
  });

  test('an empty key or namespace is refused, also as base64url', async () => {
    await call('PUT', '/v1/data/hostile/k', { value: 1 });
    for (const path of [
      '/v1/data/hostile/',
      '/v1/data//k',
      '/v1/data/hostile/~',
      '/v1/data/~/k',
      '/v1/data/',
    ]) {
      for (const method of ['GET', 'DELETE', 'PUT']) {
        const { status } = await call(method, path, method === 'PUT' ? { value: 1 } : undefined);
        expect([path, method, [400, 404, 405].includes(status)]).toEqual([path, method, true]);
      }
    }
    expect((await call('GET', '/v1/data/hostile/k')).status).toBe(200);
  });

  test('dots in a raw path do not climb out of a namespace', async () => {
    await call('PUT', '/v1/data/victim/k', { value: 'kept' });
    for (const path of [
      '/v1/data/hostile/../victim',
      '/v1/data/hostile/%2e%2e/victim',
      '/v1/data/hostile/..%2Fvictim',
      '/v1/data/hostile/x/../../victim',
    ])
      await call('DELETE', path);
    expect((await call('GET', '/v1/data/victim/k')).body).toMatchObject({ value: 'kept' });
  });
});
