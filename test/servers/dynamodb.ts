/** DynamoDB for the tests: dynalite, an emulator, or the endpoint in DYNAMODB_ENDPOINT. */
import type { AddressInfo } from 'node:net';
import dynalite from 'dynalite';
import type { TestServer } from './child.js';

export interface DynamodbOptions {
  /** How long tables stay in CREATING, as the real service's do. */
  createTableMs?: number;
  deleteTableMs?: number;
}

export async function start(options: DynamodbOptions = {}): Promise<TestServer> {
  const given = process.env['DYNAMODB_ENDPOINT'];
  if (given !== undefined && given !== '')
    return { url: given, describe: `DynamoDB at ${given} (given)`, stop: async () => undefined };
  const server = dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0, ...options });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve());
  });
  const { port } = server.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  return {
    url: `http://127.0.0.1:${port}`,
    describe: 'DynamoDB emulator (dynalite)',
    stop: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error === undefined || error === null ? resolve() : reject(error)));
        server.closeAllConnections();
      }),
  };
}
