/** An example as a call: with curl, with the client, and on the command line. */
import { type CallRequest, requestOf, takesQuery } from '../../api/call.js';
import { commandNamed } from '../../api/commands.js';
import type { Example } from '../../api/example.js';
import { operations } from '../../api/index.js';
import { type Operation, type OperationTable, parameterNames } from '../../api/operation.js';
import type { Route } from '../route.js';

/** The convention of several readers of OpenAPI documents: `x-codeSamples`. */
export interface CodeSample {
  lang: string;
  label: string;
  source: string;
}

/** The groups that the client has under `stoa.admin`; those of `server` are its own methods. */
const adminGroups: ReadonlySet<string> = new Set(['users', 'tokens', 'backups', 'blocks', 'documents']);

export function operationOf({ name }: Route): Operation | undefined {
  const [group = '', verb = ''] = name.split('.');
  const tables: Readonly<Record<string, OperationTable>> = operations;
  return tables[group]?.[verb];
}

export function samplesOf(route: Route, example: Example | undefined): CodeSample[] {
  const row = operationOf(route);
  if (row === undefined || example === undefined)
    return route.method === 'GET' ? [sample('Shell', 'curl', `curl "$STOA_URL${route.path}"`)] : [];
  const call = example.client ?? clientCall(route.name, row, example);
  const command = example.command ?? commandNamed(route.name)?.examples[0];
  return [
    sample('Shell', 'curl', curl(route, requestOf(row, example.request), example)),
    ...(call === undefined ? [] : [sample('JavaScript', 'SDK', call)]),
    ...(command === undefined ? [] : [sample('Shell', 'CLI', command)]),
  ];
}

function sample(lang: string, label: string, source: string): CodeSample {
  return { lang, label, source };
}

function curl(route: Route, { method, path, query, body, headers }: CallRequest, example: Example): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) parameters.append(name, String(value));
  const search = parameters.toString();
  const words = [
    `curl${method === 'GET' ? '' : ` -X ${method}`} "$STOA_URL${path}${search === '' ? '' : `?${search}`}"`,
    ...Object.entries({ ...credentials(route), ...headers }).map(([name, value]) => `-H "${name}: ${value}"`),
  ];
  if (example.lines !== undefined)
    words.push('-H "Content-Type: application/x-ndjson"', '--data-binary @lines.ndjson');
  else if (body !== undefined)
    words.push(
      '-H "Content-Type: application/json"',
      `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
    );
  return words.join(' \\\n  ');
}

function credentials({ principals }: Route): Record<string, string> {
  if (principals.includes('anyone')) return {};
  if (principals.includes('operator') || principals.includes('user'))
    return { Authorization: 'Bearer $STOA_TOKEN' };
  // The headers of AICQ's signatures: only the key of the agent can make them.
  return {
    'X-AICQ-Agent': '$AGENT_ID',
    'X-AICQ-Nonce': '$NONCE',
    'X-AICQ-Timestamp': '$TIMESTAMP',
    'X-AICQ-Signature': '$SIGNATURE',
  };
}

function clientCall(name: string, row: Operation, { request }: Example): string | undefined {
  // Streams and uploads are not plain calls of the client.
  if (row.streams === 'always' || row.upload === true) return undefined;
  const [group = '', verb = ''] = name.split('.');
  const place = group === 'server' ? 'admin' : adminGroups.has(group) ? `admin.${group}` : group;
  return `await stoa.${place}.${verb}(${argumentsOf(row, request).map(literal).join(', ')})`;
}

/** The arguments of the client's method, in the order of `Methods` in `src/client/methods.ts`. */
export function argumentsOf(row: Operation, request: object): unknown[] {
  const fields: Record<string, unknown> = { ...request };
  const take = (name: string): unknown => {
    const value = fields[name];
    delete fields[name];
    return value;
  };
  const path = parameterNames(row.path).map(take);
  if (takesQuery(row)) return Object.keys(fields).length === 0 ? path : [...path, fields];
  const headers = Object.keys(row.headers ?? {})
    .map((name) => [name, take(name)] as const)
    .filter(([, value]) => value !== undefined);
  const settings = headers.length === 0 ? [] : [Object.fromEntries(headers)];
  if (row.bodiless === true) return [...path, ...settings];
  const body = row.wholeBody === undefined ? fields : take(row.wholeBody);
  const isEmpty = settings.length === 0 && row.wholeBody === undefined && Object.keys(fields).length === 0;
  return isEmpty ? path : [...path, body, ...settings];
}

/** A JSON value as JavaScript: names without quotes, texts in single quotes. */
function literal(value: unknown): string {
  if (typeof value === 'string')
    return `'${JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const members = Object.entries(value).map(
    ([name, held]) => `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name)}: ${literal(held)}`,
  );
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
}
