/** A fleet at work, for the pictures and for tests that need something of everything. */
import { AgentKeys, Stoa } from '../../../src/client/index.js';
import { operatorCaller } from '../../../src/core/caller.js';
import type { Running } from '../../server/running.js';
import { Past } from './past.js';
import { talk } from './talk.js';
import { Work } from './work.js';

/** By the minute before now in which they come. */
const arrivals: readonly (readonly [minutesAgo: number, ...names: readonly string[]])[] = [
  [58, 'planner', 'watchdog', 'archivist', 'crawler-old'],
  [54, 'scout-lisbon', 'scout-osaka', 'reader-1', 'reader-2'],
  [47, 'writer', 'critic', 'translator-de', 'translator-ja', 'indexer'],
  [40, 'scout-berlin', 'scout-quito', 'reader-3', 'nightly-report'],
];

const teams: Readonly<Record<string, string>> = { scout: 'field', reader: 'research', crawler: 'field' };
/** The machine of each team. */
const machines: Readonly<Record<string, string>> = {
  field: 'van-laptop',
  research: 'rack-2',
  desk: 'rack-1',
};

export interface Demo {
  readonly projectId: string;
  readonly questionId: string;
  readonly finalId: string;
  readonly runningId: string;
  readonly endedId: string;
  readonly threadId: string;
  readonly agents: ReadonlyMap<string, string>;
}

/** Whose fleet it is. */
export interface Owner {
  readonly user: string;
  readonly token: string;
}

/** A user with a token that may do everything. */
export async function ownerOf({ stoa: home }: Running, user: string): Promise<Owner> {
  const scopes = { scopes: { write: true } };
  return { user, token: (await home.identity.createToken(operatorCaller(), user, scopes, null)).token };
}

export async function makeDemo(running: Running, owner?: Owner, past = new Past()): Promise<Demo> {
  const { url, stoa: home } = running;
  const { user, token } = owner ?? { user: 'alice', token: running.alice };
  const operator = new Stoa({ url, token: home.operatorToken });
  await operator.admin.users.set(user, { agents_max: 5_000 });
  const stoa = new Stoa({ url, token });
  const as = (agent: string): Stoa => new Stoa({ url, token, agent });
  const agents = new Map<string, string>();
  const idOf = (name: string): string => agents.get(name) ?? '';
  const work = await Work.start(stoa, as, past);

  const arrive = async (name: string): Promise<void> => {
    const team = teams[name.split('-')[0] ?? ''] ?? 'desk';
    const { agent_id } = await stoa.agents.create({ name, labels: { team } });
    agents.set(name, agent_id);
    await past.enter(name, as(name), agent_id, machines[team] ?? name);
    if ((await stoa.agents.get(agent_id)).status === 'provisioning') await stoa.agents.start(agent_id);
  };
  for (const [minutesAgo, ...names] of arrivals) {
    await past.until(minutesAgo);
    for (const name of names) await arrive(name);
  }
  agents.set('billing', (await stoa.agents.create({ name: 'billing', labels: { team: 'desk' } })).agent_id);

  await past.until(36);
  await work.finish('reader-2', 'Index the photographs of the archive', '412 photographs indexed.', 7);
  past.leave('crawler-old');
  await stoa.agents.stop(idOf('crawler-old'));
  await stoa.agents.stop(idOf('crawler-old'));
  await past.until(25);
  const endedId = await work.giveUp('writer');
  await stoa.agents.update(idOf('watchdog'), {
    status: 'error',
    error_message: 'The rate limit of the weather service was exceeded 5 times.',
  });
  await past.until(22);
  await work.handOver('critic', 'translator-de', 'Translate the summary into Japanese');
  const runningId = await work.claim('scout-lisbon', 'Collect opening hours of the museums in Lisbon');
  await past.until(17);
  await work.claim('scout-osaka', 'Compare the ferry timetables of three operators');
  await notes(as, 'scout-osaka', 'ferries/osaka/beppu', {
    operator: 'Sunflower',
    departs: '19:05',
    hours: 12,
  });
  await past.until(12);
  await notes(as, 'scout-lisbon', 'museums/lisbon/azulejo', museum('10:00', 'Monday', 3));
  const questionId = await work.ask(
    'reader-1',
    'Read the 2026 budget and list what changed',
    'Two versions of the budget disagree on page 12. Which one counts: March or April?',
  );
  await notes(as, 'reader-1', 'budget/2026/changes', ['harbour fees +4 %', 'museum pass', 'night buses']);
  await past.until(8);
  past.leave('reader-3');
  await work.claim('critic', 'Check every citation of chapter 4');
  const { finalId, waitingId } = await work.plan(runningId, questionId);
  await work.cancel(waitingId);
  await past.until(4);
  await notes(as, 'scout-lisbon', 'museums/lisbon/maat', museum('11:00', 'Tuesday', 1));
  await as('planner')
    .data('plans')
    .set('week/47', { goal: 'Autumn edition', blocked: ['budget'], done: 3 });
  await as('billing').data('metrics').set('tokens/today', 1_284_220);
  const threadId = await talk(as, past);
  for (const reader of ['critic', 'writer', 'critic'])
    await as(reader).data('notes').get('museums/lisbon/azulejo');
  for (const name of ['indexer', 'translator-ja']) await stoa.agents.update(idOf(name), { status: 'idle' });
  await stoa.agents.hibernate(idOf('archivist'));
  past.leave('archivist');
  await past.until(0);
  await fromOutside(url);
  return { projectId: work.projectId, questionId, finalId, runningId, endedId, threadId, agents };
}

function notes(as: (agent: string) => Stoa, agent: string, key: string, value: object): Promise<unknown> {
  // Values of the demo are JSON.
  return as(agent)
    .data('notes')
    .set(key, value as never);
}

function museum(open: string, closed: string, sources: number): object {
  return { open, closed: [closed], checked: sources > 2, sources };
}

/** Somebody with a key of their own, whose signature the browser checks. */
async function fromOutside(url: string): Promise<void> {
  const pilot = new Stoa({ url }).agent(await AgentKeys.generate());
  await pilot.register({ name: 'harbour-pilot' });
  await pilot.room('global').post('Fog until noon. The early ferries will be late.');
}
