import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually, until } from '../../until.js';
import { Running } from '../running.js';

const bodyBytes = 200_000;

let server: Running;
const clients: Client[] = [];

afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await server.stop();
});

/** A connection that has sent the head of a request, and then a part of its body. */
class Client {
  readonly socket: Socket;
  answer = '';
  isClosed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (bytes: Buffer) => (this.answer += bytes.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => (this.isClosed = true));
  }

  static async send(path: string, body: string, declaredBytes = body.length): Promise<Client> {
    const client = new Client(connect(server.port, '127.0.0.1'));
    clients.push(client);
    await once(client.socket, 'connect');
    const head = [
      `POST ${path} HTTP/1.1`,
      'Host: 127.0.0.1',
      `Authorization: Bearer ${server.alice}`,
      'Content-Type: application/json',
      `Content-Length: ${declaredBytes}`,
    ];
    client.socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    return client;
  }
}

const json = { 'content-type': 'application/json' };
const batch = JSON.stringify({ set: { a: 'x'.repeat(bodyBytes) } });

/** A request with a large body that waits for a task, and gets none. */
const waitForTask = (): Promise<Client> =>
  Client.send('/v1/projects/site/tasks/claim', `{"wait": 60${' '.repeat(bodyBytes)}}`);

describe('request bodies', () => {
  it('of unknown paths and methods are not read', async () => {
    server = await Running.start();
    const unknown = await Client.send('/nowhere', 'x', 17_000_000);
    await until(() => unknown.answer.includes('Unknown path /nowhere.'));
    expect(unknown.answer).toMatch(/^HTTP\/1\.1 404/);
    const refused = await Client.send('/livez', 'x', 17_000_000);
    await until(() => refused.answer.includes('/livez does not support POST.'));
    expect(refused.answer).toMatch(/^HTTP\/1\.1 405/);
  });

  it('beyond bodiesBytesMax end the connection whose body has been arriving longest', async () => {
    server = await Running.start({ limits: { bodiesBytesMax: 500_000 } });
    const slow: Client[] = [];
    for (let count = 0; count < 3; count += 1)
      slow.push(await Client.send('/v1/data/notes', batch.slice(0, -10), batch.length));
    await until(() => slow[0]?.isClosed === true || slow[1]?.isClosed === true);
    expect(slow.filter(({ isClosed }) => isClosed)).toHaveLength(1);
    const open = slow.filter(({ isClosed }) => !isClosed);
    for (const { socket } of open) socket.write(batch.slice(-10));
    await eventually(() => {
      for (const { answer } of open) expect(answer).toMatch(/^HTTP\/1\.1 200/);
    });
  });

  it('are refused while those of running requests have bodiesBytesMax', async () => {
    server = await Running.start({ limits: { bodiesBytesMax: 300_000 } });
    await server.ask('POST', '/v1/projects/site/tasks', {
      as: server.alice,
      body: { command: 'x', run_at: '2999-01-01T00:00:00Z' },
    });
    let waiting = await waitForTask();
    const large = () => server.ask('POST', '/v1/data/notes', { as: server.alice, raw: batch, headers: json });
    await eventually(async () => {
      const { status, json: body } = await large();
      // The other request may have come first.
      if (waiting.answer !== '') waiting = await waitForTask();
      expect([status, body['code']]).toEqual([503, 'overloaded']);
      expect(String(body['detail'])).toContain('bodiesBytesMax');
    });
    const small = { as: server.alice, body: { set: { a: 1 } } };
    expect((await server.ask('POST', '/v1/data/notes', small)).status).toBe(200);
    waiting.socket.destroy();
    await eventually(async () => expect((await large()).status).toBe(200));
  });
});
