import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { routeGroups } from '../../../src/server/routes/index.js';
import { AnswerChecker, type OpenApiDocument } from './answer-checker.js';
import { principals, type TestPrincipal } from '../rows/row.js';
import { routeTable } from '../rows/index.js';
import { type Ask, Running } from '../running.js';

const routes = routeGroups.flatMap((group) => group.routes);
let running: Running;
let checker: AnswerChecker;
let agentId: string;

beforeAll(async () => {
  running = await Running.start({ limits: { agentsPerUserMax: 1_000_000 } });
  checker = new AnswerChecker(
    JSON.parse((await running.ask('GET', '/openapi.json')).text) as OpenApiDocument,
  );
  agentId = (await running.stoa.registry.createAgent(operatorCaller('alice'), { name: 'signed' })).agent_id;
});
afterAll(() => running.stop());

function credentialsOf(principal: TestPrincipal): Ask['as'] {
  switch (principal) {
    case 'operator':
      return { authorization: `Bearer ${running.operator}`, 'stoa-user': 'alice' };
    case 'user':
      return running.alice;
    case 'other':
      return running.bob;
    case 'reader':
      return running.reader;
    case 'agent':
      return { 'x-test-agent': agentId };
    case 'nobody':
      return undefined;
  }
}

test('every route has a row in the table, and every row a route', () => {
  expect(Object.keys(routeTable).toSorted()).toEqual(
    routes.map(({ method, path }) => `${method} ${path}`).toSorted(),
  );
});

describe.each(routes.map((route) => ({ route, name: `${route.method} ${route.path}` })))(
  '$name',
  ({ route, name }) => {
    test.each(principals)(
      'answers %s as the table says, in a shape that the document declares',
      async (principal) => {
        const row = routeTable[name];
        if (row === undefined) throw new Error(`${name} has no row in the table of principals.`);
        const { path, body, headers } = await row.request(running, agentId);
        const as = credentialsOf(principal);
        const reply = await running.ask(route.method, path, {
          ...(as === undefined ? {} : { as }),
          body,
          headers: headers ?? {},
        });
        expect(reply.status, reply.text).toBe(row.status[principal]);
        expect(reply.headers.get('request-id')).toMatch(/^[0-9a-f]{12}-[0-9a-z]+$/);
        if (route.hidden !== true) expect(checker.complaint(route.method, route.path, reply)).toBeUndefined();
      },
    );
  },
);
