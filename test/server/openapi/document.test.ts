import { afterAll, beforeAll, expect, test } from 'vitest';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { routeGroups } from '../../../src/server/routes/index.js';
import { Running } from '../running.js';

let running: Running;
/** What the tests look at in an operation. */
interface Operation {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  security: unknown[];
  parameters: { in: string; name: string; schema: Schema }[];
  requestBody?: unknown;
  responses: Record<string, unknown>;
  'x-codeSamples': { label: string; source: string }[];
}

/** What the tests look at in a schema. */
interface Schema {
  type?: unknown;
  $ref?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
}

let document: {
  tags: { name: string; description?: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
};
beforeAll(async () => {
  running = await Running.start();
  document = JSON.parse((await running.ask('GET', '/openapi.json')).text) as typeof document;
});
afterAll(() => running.stop());

const routes = routeGroups.flatMap((group) => group.routes).filter(({ hidden }) => hidden !== true);
const operations = (): Operation[] =>
  Object.values(document.paths).flatMap((methods) => Object.values(methods));

test('every route is in the document, and nothing else', () => {
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(documented.toSorted()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).toSorted());
});

test('operation ids are unique', () => {
  const ids = operations().map(({ operationId }) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
});

test('every parameter in a path is declared, and every operation has a summary, a tag and answers', () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const operation of Object.values(methods)) {
      const declared = operation.parameters
        .filter((parameter) => parameter.in === 'path')
        .map(({ name }) => `{${name}}`);
      expect(declared).toEqual(path.match(/\{\w+\}/g) ?? []);
      expect(operation.summary.length).toBeGreaterThan(3);
      expect(operation.description.length).toBeGreaterThan(3);
      expect(operation.tags.length).toBeGreaterThan(0);
      expect(operation.security.length).toBeGreaterThan(0);
      expect(Object.keys(operation.responses)).toContain('default');
    }
  }
});

test('every group has a description, and every operation an example and the errors of its callers', () => {
  expect(document.tags.filter(({ description }) => description === undefined)).toEqual([]);
  for (const { operationId, responses, 'x-codeSamples': samples } of operations()) {
    expect([operationId, Object.keys(responses).some((status) => status.startsWith('4'))]).toEqual([
      operationId,
      true,
    ]);
    if (!/^(mcp|aicq)\./.test(operationId))
      expect([operationId, samples[0]?.label]).toEqual([operationId, 'curl']);
  }
});

test('no pattern needs the flag u, and every array says what its items are', () => {
  const complaints: string[] = [];
  const walk = (value: unknown, where: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const { type, pattern, items } = value as { type?: unknown; pattern?: unknown; items?: unknown };
    if (typeof pattern === 'string' && pattern.includes('\\p{')) complaints.push(`${where} pattern`);
    if (type === 'array' && items === undefined) complaints.push(`${where} items`);
    for (const [key, inner] of Object.entries(value)) if (key !== 'example') walk(inner, `${where}/${key}`);
  };
  walk(document, '');
  expect(complaints).toEqual([]);
});

test('every error code has a fix', async () => {
  const { items } = JSON.parse((await running.ask('GET', '/reference/errors.json')).text) as {
    items: { code: string; fix: string }[];
  };
  expect(items.filter(({ fix }) => fix.length < 10)).toEqual([]);
});

test('every reference leads somewhere and every schema compiles', () => {
  const references = JSON.stringify(document).match(/"\$ref":"([^"]+)"/g) ?? [];
  for (const reference of new Set(references)) {
    const name = /#\/components\/schemas\/([^"]+)"$/.exec(reference)?.[1] ?? reference;
    expect(document.components.schemas).toHaveProperty(name);
  }
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: 'openapi', ...document });
  for (const name of Object.keys(document.components.schemas))
    expect(ajv.getSchema(`openapi#/components/schemas/${name}`)).toBeTypeOf('function');
});

test('every time under /v1 is text by ISO 8601, in requests and in answers', () => {
  const timeNamed =
    /(^|_)at$|At$|^(ts|time|timestamp|before|after)$|^expires(_at)?$|^last_(seen|active|used)/;
  const numbers: string[] = [];
  const seen = new Set<unknown>();
  const types = (schema: Schema): unknown[] => [
    schema.type,
    ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(types),
  ];
  const walk = (value: unknown, where: string): void => {
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    seen.add(value);
    const { $ref, properties = {} } = value as Schema;
    if ($ref !== undefined)
      walk(document.components.schemas[$ref.slice($ref.lastIndexOf('/') + 1)], `${where} ${$ref}`);
    for (const [name, schema] of Object.entries(properties)) {
      const shown = types(schema).flat();
      if (timeNamed.test(name) && (shown.includes('integer') || shown.includes('number')))
        numbers.push(`${where} ${name}`);
    }
    for (const [key, inner] of Object.entries(value)) if (key !== 'example') walk(inner, where);
  };
  for (const [path, methods] of Object.entries(document.paths)) {
    if (!path.startsWith('/v1/')) continue;
    for (const operation of Object.values(methods)) {
      for (const { name, schema } of operation.parameters)
        walk({ properties: { [name]: schema } }, `${operation.operationId} parameter`);
      walk(operation.requestBody, `${operation.operationId} body`);
      walk(operation.responses, `${operation.operationId} answer`);
    }
  }
  expect(numbers).toEqual([]);
});

test('the page loads nothing from elsewhere and runs no inline script', async () => {
  const { text, headers } = await running.ask('GET', '/reference');
  expect(text).not.toMatch(/https?:\/\//);
  expect(text).not.toMatch(/<script(?![^>]*src=)/);
  expect(text).not.toMatch(/\son\w+=/);
  expect(headers.get('content-security-policy')).toContain("script-src 'self'");
  expect((await running.ask('GET', '/reference/reference.js')).headers.get('content-type')).toContain(
    'text/javascript',
  );
  expect((await running.ask('GET', '/reference/reference.css')).headers.get('content-type')).toContain(
    'text/css',
  );
});
