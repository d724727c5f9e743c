import { once } from 'node:events';
import { createConnection } from 'node:net';

/** The status of a request whose body never arrives. */
export async function statusOfHead(
  url: string,
  method: string,
  path: string,
  headers: Record<string, string>,
): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = createConnection({ port: Number(port), host: hostname });
  await once(socket, 'connect');
  socket.write(
    [
      `${method} ${path} HTTP/1.1`,
      `Host: ${hostname}:${port}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      '',
      '',
    ].join('\r\n'),
  );
  const [chunk] = await once(socket, 'data');
  socket.destroy();
  return /^HTTP\/1\.1 (\d+)/.exec(String(chunk))?.[1] ?? '';
}
