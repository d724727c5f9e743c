/** CouchDB as another program would use it: with plain requests. */
import { uniqueName } from '../../servers/shared.js';

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
