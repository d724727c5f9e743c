import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { routeGroups } from '../../../src/server/routes/index.js';
import { type StoaOptions, openStoa } from '../../../src/index.js';
import { sharedHome } from '../../servers/shared.js';
import { AnswerChecker, type OpenApiDocument } from './answer-checker.js';
import { principals, type TestPrincipal } from '../rows/row.js';
import { routeTable } from '../rows/index.js';
import { type Ask, Running, testIdentity } from '../running.js';

const routes = routeGroups.flatMap((group) => group.routes);
let running: Running;
let checker: AnswerChecker;
/** The document of the checker. */
let checked: string;
let agentId: string;

async function start(options: Partial<StoaOptions>): Promise<void> {
  running = await Running.start({ limits: { agentsPerUserMax: 1_000_000 }, ...options });
  const { text } = await running.ask('GET', '/openapi.json');
  // The homes have the same document, and its schemas take seconds to compile.
  if (text !== checked) checker = new AnswerChecker(JSON.parse(text) as OpenApiDocument);
  checked = text;
  agentId = (await running.stoa.registry.createAgent(operatorCaller('alice'), { name: 'signed' })).agent_id;
}

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

const homes: [name: string, options: () => Promise<Partial<StoaOptions>>][] = [
  ['a data directory', async () => ({})],
  [
    'PostgreSQL and Redis',
    async () => {
      const { options } = await sharedHome();
      // Rooms name the identity that made them.
      const stoa = await openStoa(options);
      const sql = postgres(options.postgres);
      await sql`INSERT INTO agents (id, public_key) VALUES (${testIdentity}, 'of a test')`;
      await sql.end();
      await stoa.close();
      return options;
    },
  ],
];

describe.each(homes)('on %s', (home, options) => {
  beforeAll(async () => start(await options()));
  afterAll(() => running.stop());

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
          const status = row.status[principal];
          const expected =
            row.directoryOnly === true && home !== 'a data directory' && status < 300 ? 501 : status;
          expect(reply.status, reply.text).toBe(expected);
          expect(reply.headers.get('request-id')).toMatch(/^[0-9a-f]{12}-[0-9a-z]+$/);
          if (route.hidden !== true)
            expect(checker.complaint(route.method, route.path, reply)).toBeUndefined();
        },
      );
    },
  );
});
