/** CouchDB for the suites: behind a proxy that causes faults, and as another program would use it. */
import { afterAll, afterEach, beforeAll } from 'vitest';
import { type Limits, limitsWith } from '../../../src/core/settings/limits.js';
import type { DataService } from '../../../src/datastore/service.js';
import { openCouchDataStore } from '../../../src/stores/couchdb/open.js';
import { dataOver } from '../../datastore/data-over.js';
import { FaultyProxy } from '../../servers/faulty-proxy.js';
import { sharedServer, uniqueName } from '../../servers/shared.js';

/** Retries at once, and not often. */
export const hastyLimits = limitsWith({ backendDelayMsMax: 50, backendAttemptsMax: 3 });

/** The shared server behind a proxy of this suite. */
export class ProxiedCouchdb {
  readonly #database = databaseNames();
  #server = '';
  #proxy: FaultyProxy | undefined;

  constructor() {
    beforeAll(async () => {
      this.#server = (await sharedServer('couchdb')).url;
      this.#proxy = new FaultyProxy(this.#server);
      await this.#proxy.start();
    });
    afterAll(() => this.#proxy?.stop());
    afterEach(() => this.#proxy?.heal());
  }

  get server(): string {
    return this.#server;
  }

  get proxy(): FaultyProxy {
    if (this.#proxy === undefined) throw new Error('The proxy starts before the first test.');
    return this.#proxy;
  }

  database(name: string): string {
    return this.#database(name);
  }

  urlOf(name: string): URL {
    return couchdbUrl(this.#server, this.#database(name), this.proxy.url);
  }

  async open(name: string, overrides: Partial<Limits> = {}): Promise<DataService> {
    const limits = limitsWith({ ...hastyLimits, ...overrides });
    const port = await openCouchDataStore(this.urlOf(name), { limits, nowMs: Date.now });
    return dataOver({ port, limits });
  }
}

/** A request with the credentials of the server's URL: Node's fetch refuses them inside the URL. */
export async function callCouchdb(
  server: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const { origin, username, password } = new URL(server);
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const answer = await fetch(origin + path, {
    method,
    headers: {
      'content-type': 'application/json',
      ...(username !== '' && { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

/** The URL of a database, with the credentials of the server and perhaps by way of a proxy. */
export function couchdbUrl(server: string, database: string, way = server): URL {
  const url = new URL(`/${database}`, server);
  url.host = new URL(way).host;
  return new URL(url.href.replace(/^http/, 'couchdb'));
}

/** The name of a database that no other run has. */
export function databaseNames(): (name: string) => string {
  const run = uniqueName('run');
  return (name) => `${name}_${run}`;
}
