import type { Running } from '../running.js';

/** A request on a bare connection; the server closes it after the answer. */
export function rawRequest(running: Running, line: string, headers: string[], body = ''): string {
  return [
    line,
    `Host: 127.0.0.1:${running.port}`,
    `Authorization: Bearer ${running.alice}`,
    ...headers,
    'Connection: close',
    '',
    body,
  ].join('\r\n');
}
