/** The OpenAPI 3.1 document, made from the schemas that validate requests. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { requestOf } from '../../api/call.js';
import type { Example } from '../../api/example.js';
import { exampleNamed } from '../../api/examples.js';
import { groupSummaries } from '../../api/groups.js';
import { parameterNames } from '../../api/operation.js';
import { errorKinds } from '../../core/errors.js';
import { version } from '../../version.js';
import type { RouteGroup } from '../group.js';
import { ndjson } from '../../api/operations/schemas.js';
import { problemSchema } from '../answer/problem.js';
import { hasLocation } from '../answer/location.js';
import type { Route } from '../route.js';
import { errorStatusesOf } from './errors.js';
import { operationOf, samplesOf } from './samples.js';

type Json = Record<string, unknown>;

const tagSummaries: Readonly<Record<string, string | undefined>> = {
  ...groupSummaries,
  aicq: 'The text that describes AICQ for agents.',
  mcp: 'The Model Context Protocol.',
  health: 'The health of the server in the format of AICQ.',
  probes: 'Probes for a supervisor.',
  reference: 'This document, the error codes and the metrics.',
};

/** Makes the document. It yields after each route: the schemas of all routes take hundreds of milliseconds. */
export function* openApiOf(groups: readonly RouteGroup[]): Generator<undefined, Json> {
  const components = new Components();
  const paths: Record<string, Json> = {};
  for (const group of groups) {
    const problem = problemContent(group, components);
    for (const route of group.routes) {
      if (route.hidden) continue;
      (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route, problem, components);
      yield;
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Stoa',
      version,
      description: 'The state plane for AI agents: shared data, registry, workspaces and messaging.',
      contact: { name: 'Stoa', url: 'https://github.com/stoa-agents/stoa' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: [
      ...new Set(
        groups.flatMap(({ routes }) => routes.filter(({ hidden }) => !hidden).map(({ tag }) => tag)),
      ),
    ].map((name) => ({ name, description: tagSummaries[name] })),
    paths,
    components: {
      schemas: components.schemas,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: "The operator's token or a token of a user." },
        signature: {
          type: 'apiKey',
          in: 'header',
          name: 'Signature',
          description: "An agent's Ed25519 signature by RFC 9421, with Signature-Input.",
        },
      },
    },
  };
}

function problemContent(group: RouteGroup, components: Components): Json {
  if (group.errorSchema !== undefined)
    return { 'application/json': { schema: components.schemaOf(group.errorSchema, 'output') } };
  return { 'application/problem+json': { schema: components.schemaOf(problemSchema, 'output') } };
}

function operation(route: Route, problem: Json, components: Components): Json {
  const example = exampleNamed(route.name);
  const requestBody = bodyOf(route, example, components);
  return {
    operationId: route.name,
    summary: route.summary,
    // Linters ask for both.
    description: route.description ?? `${route.summary}.`,
    tags: [route.tag],
    security: securityOf(route),
    'x-principals': route.principals,
    'x-codeSamples': samplesOf(route, example),
    parameters: parametersOf(route, example, components),
    ...(requestBody === undefined ? {} : { requestBody }),
    responses: {
      ...errorAnswers(route, problem),
      ...responsesOf(route, example, components),
      default: { description: 'Another error.', content: problem },
    },
  };
}

function securityOf({ principals }: Route): Json[] {
  const schemes: Json[] = [];
  if (principals.includes('operator') || principals.includes('user')) schemes.push({ bearer: [] });
  if (principals.includes('agent')) schemes.push({ signature: [] });
  if (principals.includes('anyone')) schemes.push({});
  return schemes;
}

/** Each status of the caller's mistakes, with its codes. */
function errorAnswers(route: Route, problem: Json): Json {
  return Object.fromEntries(
    [...errorStatusesOf(route)].map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${errorKinds[code].title}.`).join(' '),
        'x-error-codes': codes,
        content: problem,
      },
    ]),
  );
}

function parametersOf(route: Route, example: Example | undefined, components: Components): Json[] {
  const inPath = components.propertiesOf(route.params);
  const fields: Readonly<Record<string, unknown>> = { ...example?.request };
  return [
    ...parameterNames(route.path).map((name) => ({
      name,
      in: 'path',
      required: true,
      schema: inPath.properties[name] ?? { type: 'string' },
      ...(fields[name] === undefined ? {} : { example: fields[name] }),
    })),
    ...parametersIn('query', components.propertiesOf(route.query), fields),
    ...parametersIn('header', components.propertiesOf(route.headers), {}),
    ...conventionalHeaders(route),
  ];
}

function parametersIn(
  place: string,
  { properties, required }: Properties,
  examples: Readonly<Record<string, unknown>>,
): Json[] {
  return Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = schema;
    const example = examples[name];
    return {
      name,
      in: place,
      required: required.has(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
      // A list is sent with commas.
      ...(example === undefined ? {} : { example: rest['type'] === 'string' ? String(example) : example }),
    };
  });
}

function conventionalHeaders(route: Route): Json[] {
  const headers: Json[] = [];
  if (route.creates || route.takesKey)
    headers.push(
      header('Idempotency-Key', 'A retry with the same key and body gets the first answer again.'),
    );
  if (route.versioned && route.writes && !route.creates)
    headers.push(
      header('If-Match', 'The quoted version that must be the current one.'),
      header('If-None-Match', '`*`: the record must not exist yet.'),
    );
  if (route.versioned && !route.writes)
    headers.push(
      header('If-None-Match', 'A quoted version. If it is the current version, the response is 304.'),
    );
  if (!route.principals.includes('anyone')) {
    headers.push(
      header('Stoa-User', 'For the operator: the user to act for, percent-encoded.'),
      header('Stoa-Agent', 'The name of the agent that acts, percent-encoded.'),
    );
    if (route.writes)
      headers.push(
        header('Stoa-Fence', "The fencing number of the caller's lease. An outdated number is refused."),
      );
  }
  return headers;
}

function header(name: string, description: string): Json {
  return { name, in: 'header', required: false, description, schema: { type: 'string' } };
}

function bodyOf(route: Route, example: Example | undefined, components: Components): Json | undefined {
  if (route.upload)
    return {
      required: true,
      content: {
        [ndjson]: {
          schema: { type: 'string', description: 'One record on each line.' },
          ...(example?.lines === undefined ? {} : { example: `${example.lines.join('\n')}\n` }),
        },
      },
    };
  if (route.body === undefined) return undefined;
  const schema = components.schemaOf(route.body, 'input');
  const row = operationOf(route);
  const body = row === undefined || example === undefined ? undefined : requestOf(row, example.request).body;
  const content = Object.fromEntries(
    (route.consumes === 'raw' ? ['application/json'] : route.consumes).map((type) => [
      type,
      // The example is of the usual content type; another type means another format.
      { schema, ...(body === undefined || type !== 'application/json' ? {} : { example: body }) },
    ]),
  );
  return { required: !route.body.safeParse(undefined).success, content };
}

function responsesOf(route: Route, example: Example | undefined, components: Components): Json {
  const headers = {
    'Request-Id': { schema: { type: 'string' } },
    ...(route.versioned ? { ETag: { description: 'The quoted version.', schema: { type: 'string' } } } : {}),
  };
  const responses: Json = {};
  for (const [status, answer] of Object.entries(route.answers)) {
    if (answer === null) responses[status] = { description: 'Success, without content.', headers };
    else if ('contentType' in answer)
      responses[status] = {
        description: answer.about,
        headers,
        content: { [answer.contentType]: { schema: { type: 'string' } } },
      };
    else {
      const content: Json = {
        'application/json': {
          schema: components.schemaOf(answer, 'output'),
          ...(example?.answer === undefined ? {} : { example: example.answer }),
        },
      };
      if (route.streams)
        content['text/event-stream'] = { schema: { type: 'string', description: 'Server-sent events.' } };
      const location = status === '201' && hasLocation(route);
      responses[status] = {
        description: answer.description ?? route.summary,
        headers: location ? { ...headers, Location: locationHeader } : headers,
        content,
      };
    }
  }
  if (route.versioned && !route.writes)
    responses['304'] = { description: 'The current version is the one in If-None-Match.', headers };
  return responses;
}

const locationHeader = { description: 'The path of the created record.', schema: { type: 'string' } };

interface Properties {
  properties: Record<string, Json>;
  required: ReadonlySet<string>;
}

/** Schemas with an id are written once under components, and referenced. */
class Components {
  readonly schemas: Record<string, Json> = {};

  schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
    const made = toJson(schema, io);
    const { $defs, ...root } = made as { $defs?: Record<string, Json> };
    const names = new Map(Object.keys($defs ?? {}).map((name) => [name, name]));
    for (const [name, definition] of Object.entries($defs ?? {}))
      names.set(name, this.#add(name, definition, io));
    const id = typeof made['id'] === 'string' ? made['id'] : undefined;
    const body = renamed(root, names);
    return id === undefined ? body : { $ref: `#/components/schemas/${this.#add(id, body, io)}` };
  }

  propertiesOf(schema: z.ZodType | undefined): Properties {
    if (schema === undefined) return { properties: {}, required: new Set() };
    // An object's JSON schema has these two.
    const { properties = {}, required = [] } = toJson(schema, 'input') as {
      properties?: Record<string, Json>;
      required?: string[];
    };
    return { properties, required: new Set(required) };
  }

  /** The input and output of a schema can differ under the same id; the input then gets another name. */
  #add(id: string, definition: Json, io: 'input' | 'output'): string {
    const { id: _, $id: __, ...body } = renamed(definition, new Map());
    const taken = this.schemas[id];
    const name =
      taken === undefined || isDeepStrictEqual(taken, body)
        ? id
        : `${id}${io === 'input' ? 'Input' : 'Output'}`;
    this.schemas[name] = body;
    return name;
  }
}

function toJson(schema: z.ZodType, io: 'input' | 'output'): Json {
  const {
    $schema: _,
    '~standard': __,
    ...json
  } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => forEveryTool(jsonSchema),
  }) as Json;
  return json;
}

/** Changes what some tools for OpenAPI read wrongly. The server itself checks with the whole schema. */
function forEveryTool(schema: Json): void {
  // Without the flag `u` this means other characters, and many tools compile patterns without it.
  if (typeof schema['pattern'] === 'string' && schema['pattern'].includes('\\p{')) delete schema['pattern'];
  // Many tools require `items` for every array.
  const { prefixItems } = schema;
  if (!Array.isArray(prefixItems)) return;
  const [first, ...rest] = prefixItems as unknown[];
  if (!rest.every((item) => isDeepStrictEqual(item, first))) return;
  delete schema['prefixItems'];
  Object.assign(schema, { items: first, minItems: prefixItems.length, maxItems: prefixItems.length });
}

/** Converts references to the schema's definitions into references to components. */
function renamed(value: Json, names: ReadonlyMap<string, string>): Json {
  const walk = (inner: unknown): unknown => {
    if (Array.isArray(inner)) return inner.map(walk);
    if (typeof inner !== 'object' || inner === null) return inner;
    return Object.fromEntries(
      Object.entries(inner).map(([key, held]) => {
        if (key !== '$ref' || typeof held !== 'string' || !held.startsWith('#/$defs/'))
          return [key, walk(held)];
        const name = held.slice('#/$defs/'.length);
        return [key, `#/components/schemas/${names.get(name) ?? name}`];
      }),
    );
  };
  // The walk of an object returns an object.
  return walk(value) as Json;
}
