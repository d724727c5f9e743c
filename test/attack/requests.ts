/**
 * Requests made from the OpenAPI document: every operation, with parameters and bodies that fit or do not.
 */
import type { Random } from './random.js';
import { Known, type Schema, Values } from './values.js';

interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  schema?: Schema;
}

interface Operation {
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema?: Schema }> };
}

export interface OpenApi {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

export interface AttackRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
  /** The operation that it was made from. */
  operation: string;
}

/** These write to places on the server's disk that the request names, or re-encrypt all secrets. */
const leftOut = new Set([
  'post /v1/backups',
  'post /v1/backups/prune',
  'post /v1/backups/verify',
  'post /v1/secrets/rekey',
]);
/** These go over the whole store. */
const long = new Set(['get /v1/export', 'post /v1/doctor', 'post /v1/import', 'get /v1/inspect']);
const bodyBytesMax = 1_500_000;

export class Requests {
  readonly known = new Known();
  /** Existing ids, by the path segment before them. */
  readonly things: Record<string, string[]> = {};
  readonly #random: Random;
  readonly #values: Values;
  readonly #operations: { path: string; method: string; operation: Operation }[];

  constructor(random: Random, document: OpenApi) {
    this.#random = random;
    this.#values = new Values(random, this.known, document.components.schemas);
    this.#operations = Object.entries(document.paths)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
      )
      .filter(({ path, method }) => !leftOut.has(`${method} ${path}`));
  }

  next(): AttackRequest {
    const random = this.#random;
    let chosen = random.of(this.#operations);
    while (long.has(`${chosen.method} ${chosen.path}`) && !random.is(0.02))
      chosen = random.of(this.#operations);
    const { path, method, operation } = chosen;
    // Most are nearly valid, so that they pass the first check.
    const odd = random.of([0, 0.02, 0.05, 0.2, 0.6]);
    const parameters = operation.parameters ?? [];
    const headers: Record<string, string> = {};
    for (const { name, schema } of parameters.filter((parameter) => parameter.in === 'header'))
      if (random.is(0.2)) headers[name.toLowerCase()] = headerText(this.#values.of(schema, odd));
    let filled = path;
    for (const { name, schema } of parameters.filter((parameter) => parameter.in === 'path'))
      filled = filled.replace(`{${name}}`, (_found, at: number) => {
        const thing = this.things[path.slice(0, at).split('/').at(-2) ?? ''];
        return thing !== undefined && random.is(0.8 - odd)
          ? random.of(thing)
          : this.#values.word(schema, odd);
      });
    const query = parameters
      .filter((parameter) => parameter.in === 'query' && (parameter.required === true || random.is(0.5)))
      // Nobody waits for long here.
      .map(
        ({ name, schema }) =>
          `${name}=${/wait/.test(name) ? random.of(['0', '1', '-1', 'x']) : this.#values.word(schema, odd)}`,
      );
    const body = this.#body(operation, headers, odd);
    return {
      method: random.is(odd / 10)
        ? random.of(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'])
        : method.toUpperCase(),
      path: query.length === 0 ? filled : `${filled}?${query.join('&')}`,
      headers: { ...headers, ...this.#conditions(odd) },
      body,
      operation: `${method} ${path}`,
    };
  }

  #conditions(odd: number): Record<string, string> {
    const random = this.#random;
    const headers: Record<string, string> = {};
    const maybe = (name: string, values: readonly string[]): void => {
      if (random.is(0.03 + odd / 5)) headers[name] = random.of(values);
    };
    maybe('if-match', ['*', '"1"', '"999999999999999999"', 'x', '""']);
    maybe('if-none-match', ['*', '"1"', 'W/"1"']);
    maybe('idempotency-key', ['same', String(random.below(1e9)), '', 'x'.repeat(300), '\u00ff']);
    maybe('stoa-agent', ['worker', 'x'.repeat(300), 'caf\u00e9', 'signed']);
    maybe('stoa-user', ['alice', 'bob', 'nobody', '\u00ff']);
    maybe('stoa-fence', ['1', '-1', '99999999999999999999', 'x']);
    maybe('accept', ['text/event-stream', '*/*', 'text/html', 'x']);
    maybe('last-event-id', ['0', '999999999999999', 'x', '-1']);
    return headers;
  }

  #body(operation: Operation, headers: Record<string, string>, odd: number): string | undefined {
    const content = Object.entries(operation.requestBody?.content ?? {})[0];
    if (content === undefined) return undefined;
    const [type, { schema }] = content;
    const random = this.#random;
    headers['content-type'] = random.is(odd / 10)
      ? random.of(['text/plain', 'application/x-ndjson', 'x', ''])
      : type;
    const text = JSON.stringify(this.#values.of(schema, odd)) ?? '';
    if (text.length > bodyBytesMax) return text.slice(0, bodyBytesMax);
    if (!random.is(odd / 5)) return text;
    // Cut, escaped in another way, or not JSON at all.
    return random.of([
      text.slice(0, random.below(text.length + 1)),
      text.replaceAll('a', '\\u0061'),
      `${text}${text}`,
      `\ufeff${text}`,
      text.replace(/\d+/, '1e999'),
      '',
    ]);
  }
}

/** Header values that Node sends: Latin-1 without control characters. */
function headerText(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.replaceAll(/[^\t\u0020-\u007e\u0080-\u00ff]/g, '?').slice(0, 2_000);
}
