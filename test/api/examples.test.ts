import { expect, test } from 'vitest';
import { z } from 'zod';
import { requestOf } from '../../src/api/call.js';
import { exampleNamed } from '../../src/api/examples.js';
import { groupSummaries } from '../../src/api/groups.js';
import { operations } from '../../src/api/index.js';
import { type Operation, parameterNames } from '../../src/api/operation.js';
import type { CommandDefinition } from '../../src/cli/definitions/definition.js';
import { commandTree } from '../../src/cli/tree/index.js';
import { requestOfCall } from '../../src/client/methods.js';
import { argumentsOf, samplesOf } from '../../src/server/openapi/samples.js';
import { serverExamples } from '../../src/api/operations/examples.js';
import { routeGroups } from '../../src/server/routes/index.js';
import { firstPosition, positionParts } from '../../src/feed/positions.js';
import { directoryPlacements } from '../../src/homes/directory/placements.js';

const all = Object.entries(operations).flatMap(([group, table]) =>
  Object.entries(table).map(([verb, row]: [string, Operation]) => ({ name: `${group}.${verb}`, row })),
);
const routes = new Map(routeGroups.flatMap((group) => group.routes.map((route) => [route.name, route])));

/** The same schema that reports every member that it does not know. */
function strictly(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodObject && schema.def.catchall === undefined ? schema.strict() : schema;
}

test('every operation has an example, and every group a line about it', () => {
  expect(all.filter(({ name }) => exampleNamed(name) === undefined).map(({ name }) => name)).toEqual([]);
  expect(Object.keys(groupSummaries).toSorted()).toEqual(Object.keys(operations).toSorted());
});

test.each(all)('the example of $name fits its schemas', ({ name, row }) => {
  const route = routes.get(name);
  const example = exampleNamed(name);
  if (route === undefined || example === undefined) throw new Error(`${name} has no route or no example`);
  const fields = new Map(Object.entries(example.request));
  const { query, body } = requestOf(row, example.request);
  route.params?.parse(
    Object.fromEntries(parameterNames(row.path).map((field) => [field, fields.get(field)])),
  );
  const sent = Object.entries(query).filter(([, value]) => value !== undefined);
  // In a query everything is text. Queries of AICQ take anything.
  route.query?.parse(Object.fromEntries(sent.map(([field, value]) => [field, String(value)])));
  route.body?.parse(body);
  expect(example.lines !== undefined).toBe(route.upload === true);
  const json = Object.values(route.answers).filter((answer) => answer instanceof z.ZodType);
  if (json.length === 0) expect(example.answer).toBeUndefined();
  else
    expect(json.map((schema) => strictly(schema).safeParse(example.answer).error?.message)).toContain(
      undefined,
    );
});

/** Every text under one of these names, anywhere in the example. */
function textsNamed(names: readonly string[], value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    names.includes(name) && typeof member === 'string' ? [member] : textsNamed(names, member),
  );
}

test('every position and every family of an example is one that Stoa could answer', () => {
  const examples = all.map(({ name }) => exampleNamed(name));
  const positions = textsNamed(['position', 'since'], examples);
  expect(positions.length).toBeGreaterThan(0);
  for (const position of positions) if (position !== firstPosition) positionParts(position);
  const counted = Object.keys(serverExamples.status?.answer.families ?? {});
  const families = [...textsNamed(['family'], examples), ...counted];
  expect(counted.length).toBeGreaterThan(0);
  expect(families.filter((family) => !Object.hasOwn(directoryPlacements, family))).toEqual([]);
});

test.each(all)('the samples of $name make the request of the example', ({ name, row }) => {
  const route = routes.get(name);
  const example = exampleNamed(name);
  if (route === undefined || example === undefined) throw new Error(`${name} has no route or no example`);
  const { method, path, query, body } = requestOf(row, example.request);
  const called = requestOfCall(row, argumentsOf(row, example.request));
  expect({ path: called.path, query: called.query, body: called.body ?? {} }).toEqual({
    path,
    query,
    body: body ?? {},
  });
  const [curl, ...others] = samplesOf(route, example);
  expect(curl?.source).toContain(`$STOA_URL${path}`);
  if (method !== 'GET') expect(curl?.source).toContain(`-X ${method}`);
  for (const { label, source } of others)
    expect(source).toMatch(label === 'CLI' ? /\bstoa \w/ : /\bstoa[.(]/);
});

test('every command of an example exists', () => {
  const find = (words: readonly string[], among: readonly CommandDefinition[]): boolean => {
    const [word, ...rest] = words;
    const command = among.find(({ usage }) => usage.split(' ')[0] === word);
    if (command === undefined) return false;
    const takesWords = command.usage.includes(' ') || command.action !== undefined;
    return takesWords || command.commands === undefined || find(rest, command.commands);
  };
  for (const { name } of all) {
    const route = routes.get(name);
    const samples = route === undefined ? [] : samplesOf(route, exampleNamed(name));
    for (const { label, source } of samples)
      if (label === 'CLI')
        expect([source, find(source.split('stoa ')[1]?.split(' ') ?? [], commandTree)]).toEqual([
          source,
          true,
        ]);
  }
});
