/** Every combination of places for the domains: what one commit can contain, and how the rest is refused. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CommitInput } from '../../src/commit/schemas.js';
import { StoaError } from '../../src/core/errors.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { globalRoomId } from '../../src/messaging/uuid.js';
import { dropTable, dynamodb } from '../stores/dynamodb/table.js';
import { sharedPostgres, sharedServer, uniqueName } from '../servers/shared.js';

const ada = operatorCaller('ada', 'planner');
const domains = ['data', 'registry', 'workspaces', 'messaging'] as const;
type Domain = (typeof domains)[number];

/** A place with a separate name; two PostgreSQLs are two databases. */
type Place = 'embedded' | 'postgres' | 'postgres-2' | 'couchdb' | 'dynamodb' | 'memory';
type Mixture = Partial<Record<'data' | 'workspaces' | 'messaging', Place>>;

const mixtures: Mixture[] = [
  {},
  { data: 'postgres' },
  { workspaces: 'postgres' },
  { messaging: 'postgres' },
  { data: 'postgres', workspaces: 'postgres' },
  { data: 'postgres', messaging: 'postgres' },
  { data: 'postgres', messaging: 'postgres-2' },
  { workspaces: 'postgres', messaging: 'postgres' },
  { data: 'postgres', workspaces: 'postgres-2' },
  { data: 'postgres', workspaces: 'postgres', messaging: 'postgres' },
  { data: 'postgres', workspaces: 'postgres', messaging: 'postgres-2' },
  { data: 'couchdb' },
  { data: 'dynamodb', workspaces: 'postgres' },
  { data: 'memory', workspaces: 'postgres', messaging: 'postgres' },
];

const sets: Domain[][] = Array.from({ length: 15 }, (_, index) =>
  domains.filter((_domain, bit) => ((index + 1) >> bit) % 2 === 1),
);
const nouns: Record<Domain, string> = {
  data: 'data store',
  registry: 'registry',
  workspaces: 'workspaces',
  messaging: 'messaging',
};

function titleOf(mixture: Mixture): string {
  return (
    Object.entries(mixture)
      .map(([domain, place]) => `${domain} in ${place}`)
      .join(', ') || 'all in the data directory'
  );
}

function placeOf(mixture: Mixture, domain: Domain): Place {
  return domain === 'registry' ? 'embedded' : (mixture[domain] ?? 'embedded');
}

/** The rule as the documentation has it: what the refusal has to name, or nothing. */
function refusalOf(mixture: Mixture, touched: readonly Domain[]): Domain[] | undefined {
  const outside = touched.find((domain) => !/^(embedded|postgres)/.test(placeOf(mixture, domain)));
  if (outside !== undefined) return [outside];
  const [first, ...others] = touched.filter((domain) => domain !== 'messaging');
  if (first === undefined) return undefined;
  const other = others.find((domain) => placeOf(mixture, domain) !== placeOf(mixture, first));
  if (other !== undefined) return [first, other];
  const isWithout =
    touched.includes('messaging') &&
    placeOf(mixture, first) === 'embedded' &&
    placeOf(mixture, 'messaging') !== 'embedded';
  return isWithout ? [first, 'messaging'] : undefined;
}

describe.each(mixtures.map((mixture) => ({ title: titleOf(mixture), mixture })))('$title', ({ mixture }) => {
  let stoa: Stoa;
  let sessionId: string;
  let agentId: string;
  let drop: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    const urls = new Map<Place, string>([
      ['embedded', 'embedded'],
      ['memory', 'memory://'],
    ]);
    for (const place of Object.values(mixture)) {
      if (place.startsWith('postgres') && !urls.has(place)) urls.set(place, (await sharedPostgres()).url);
      if (place === 'couchdb')
        urls.set(
          place,
          new URL(`/${uniqueName('places')}`, (await sharedServer('couchdb')).url).href.replace(
            /^http/,
            'couchdb',
          ),
        );
      if (place === 'dynamodb') {
        const { url } = await sharedServer('dynamodb');
        const table = uniqueName('places');
        urls.set(place, dynamodb(url, table));
        drop = () => dropTable(url, table);
      }
    }
    const urlOf = (domain: Domain): string => urls.get(placeOf(mixture, domain)) ?? '';
    const redis =
      placeOf(mixture, 'messaging') === 'embedded' ? {} : { redis: (await sharedServer('redis')).url };
    stoa = await openStoa({
      data: 'unused',
      engine: 'memory',
      datastore: urlOf('data'),
      workspaces: urlOf('workspaces'),
      messaging: urlOf('messaging'),
      ...redis,
    });
    const workspace = await stoa.workspaces.createWorkspace(ada, { name: 'w' });
    const project = await stoa.workspaces.createProject(ada, workspace.id, { name: 'p' });
    sessionId = (await stoa.workspaces.createSession(ada, project.id, { status: 'active' })).id;
    agentId = (await stoa.registry.createAgent(ada, { name: 'scout' })).agent_id;
  }, 120_000);
  afterAll(async () => {
    await stoa.close();
    await drop?.();
  });

  /** What a commit of all domains would change. */
  async function state(word: string): Promise<unknown> {
    const { items } = await stoa.messaging.port.messages(globalRoomId, { beforeMs: null, limit: 50 });
    const tasks = await stoa.workspaces.listTasks(ada, sessionId, { limit: 100 });
    return {
      data: (await stoa.data.get(ada, 'default', word)) === word,
      registry: (await stoa.registry.getAgent(ada, agentId)).labels['word'] === word,
      workspaces: tasks.items.some(({ command }) => command === word),
      messaging: items.some(({ body }) => body === word),
    };
  }

  it.each(sets.map((touched) => ({ name: touched.join(' + '), touched })))('$name', async ({ touched }) => {
    const word = `${touched.join('-')} ${Math.random()}`;
    const operations: Record<Domain, CommitInput['operations'][number]> = {
      data: { op: 'data.set', key: word, value: word },
      registry: { op: 'agent.update', agent_id: agentId, labels: { word } },
      workspaces: { op: 'task.create', session_id: sessionId, command: word },
      messaging: { op: 'room.post', room: 'global', body: word },
    };
    const commit = () => stoa.commit.commit(ada, { operations: touched.map((domain) => operations[domain]) });
    const refused = refusalOf(mixture, touched);
    if (refused === undefined) {
      expect(await commit()).toMatchObject({ ok: true, results: touched.map(() => expect.any(Object)) });
      expect(await state(word)).toEqual(
        Object.fromEntries(domains.map((domain) => [domain, touched.includes(domain)])),
      );
      return;
    }
    const error: unknown = await commit().catch((thrown: unknown) => thrown);
    if (!(error instanceof StoaError)) throw new Error(`It was not refused: ${JSON.stringify(error)}`);
    expect(error.code).toBe('unsupported');
    for (const domain of refused) {
      expect(error.message.toLowerCase()).toContain(nouns[domain]);
      expect(error.message).toContain(placeOf(mixture, domain).replace(/-2$/, ''));
    }
    expect(error.fix).toMatch(/two commits|outside of the commit/);
    expect(error.details).toEqual(
      refused.length === 1
        ? { domain: refused[0], backend: placeOf(mixture, refused[0] as Domain) }
        : Object.fromEntries(refused.map((domain) => [domain, placeOf(mixture, domain).replace(/-2$/, '')])),
    );
    expect(await state(word)).toEqual({ data: false, registry: false, workspaces: false, messaging: false });
  });
});
