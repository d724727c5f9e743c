/** A fleet at work, for the pictures and for tests that need something of everything. */
import { Stoa } from '../../src/client/index.js';
import type { Running } from '../server/running.js';

const names = [
  'planner',
  'scout-berlin',
  'scout-lisbon',
  'scout-osaka',
  'scout-quito',
  'reader-1',
  'reader-2',
  'reader-3',
  'writer',
  'critic',
  'indexer',
  'translator-de',
  'translator-ja',
  'archivist',
  'watchdog',
  'billing',
  'nightly-report',
  'crawler-old',
];

const commands = [
  'Collect opening hours of the museums in Lisbon',
  'Compare the ferry timetables of three operators',
  'Read the 2026 budget and list what changed',
  'Translate the summary into Japanese',
  'Check every citation of chapter 4',
  'Draft the reply to the harbour office',
  'Index the photographs of the archive',
  'Find contradictions between the two surveys',
  'Write the daily report',
  'Verify the phone numbers of suppliers',
];

export interface Demo {
  readonly projectId: string;
  readonly questionId: string;
  readonly finalId: string;
  readonly runningId: string;
  readonly threadId: string;
  readonly agents: ReadonlyMap<string, string>;
}

export async function makeDemo({ url, alice, stoa: home }: Running): Promise<Demo> {
  await new Stoa({ url, token: home.operatorToken }).admin.users.set('alice', { agents_max: 5_000 });
  const stoa = new Stoa({ url, token: alice });
  const as = (agent: string): Stoa => new Stoa({ url, token: alice, agent });
  const agents = new Map<string, string>();
  for (const [at, name] of names.entries()) {
    const { agent_id } = await stoa.agents.create({
      name,
      labels: { team: at % 3 === 0 ? 'research' : at % 3 === 1 ? 'field' : 'desk' },
    });
    agents.set(name, agent_id);
    if (at === 15) continue;
    await as(name).agents.heartbeat(agent_id, { holder: name });
    const { status } = await stoa.agents.get(agent_id);
    if (status === 'provisioning') await stoa.agents.start(agent_id);
  }
  const idOf = (name: string): string => agents.get(name) ?? '';
  for (const name of ['indexer', 'translator-ja']) await stoa.agents.update(idOf(name), { status: 'idle' });
  await stoa.agents.hibernate(idOf('archivist'));
  await stoa.agents.update(idOf('watchdog'), {
    status: 'error',
    error_message: 'The rate limit of the weather service was exceeded 5 times.',
  });
  await stoa.agents.stop(idOf('crawler-old'));
  await stoa.agents.stop(idOf('crawler-old'));

  const workspace = await stoa.workspaces.create({ name: 'Harbour guide', project_path: '/work/harbour' });
  const project = await stoa.projects.create(workspace.id, {
    name: 'Autumn edition',
    path: '/work/harbour/autumn',
  });
  const session = await stoa.sessions.create(project.id, { status: 'active' });
  const holders = [
    'scout-lisbon',
    'scout-osaka',
    'reader-1',
    'translator-de',
    'critic',
    'writer',
    'reader-2',
  ];
  for (const [at, holder] of holders.entries()) {
    await stoa.tasks.create(session.id, {
      command: commands[at] ?? '',
      labels: [at % 2 === 0 ? 'travel' : 'text'],
      max_attempts: at === 5 ? 1 : 3,
    });
    const claim = await as(holder).tasks.claim(project.id, { leaseSeconds: 600 });
    if (claim === null) throw new Error('No task was ready.');
    claim.abandon();
    if (at === 2) {
      await as(holder).tasks.ask(claim.task.id, {
        fence: claim.fence,
        question: 'Two versions of the budget disagree on page 12. Which one counts: March or April?',
      });
    }
    if (at === 5)
      await as(holder).tasks.fail(claim.task.id, {
        fence: claim.fence,
        error: 'The office has closed its mailbox.',
      });
    if (at === 6)
      await as(holder).tasks.complete(claim.task.id, {
        fence: claim.fence,
        output: '412 photographs indexed.',
      });
  }
  const [question] = (await stoa.tasks.list({ status: 'input_required' })).items;
  const [running] = (await stoa.tasks.list({ status: 'running' })).items;
  const collected = await stoa.tasks.create(session.id, {
    command: 'Merge the notes of all scouts',
    depends_on: [running?.id ?? ''],
  });
  const checked = await stoa.tasks.create(session.id, {
    command: commands[7] ?? '',
    depends_on: [collected.id],
    priority: 5,
  });
  const final = await stoa.tasks.create(session.id, {
    command: commands[8] ?? '',
    depends_on: [collected.id, checked.id, question?.id ?? ''],
    labels: ['report'],
  });
  for (const command of commands.slice(7)) await stoa.tasks.create(session.id, { command, priority: 1 });

  const notes = (agent: string) => as(agent).data('notes');
  await notes('scout-lisbon').set('museums/lisbon/azulejo', {
    open: '10:00',
    closed: ['Monday'],
    checked: true,
    sources: 3,
  });
  await notes('scout-lisbon').set('museums/lisbon/maat', {
    open: '11:00',
    closed: ['Tuesday'],
    checked: false,
    sources: 1,
  });
  await notes('scout-osaka').set('ferries/osaka/beppu', {
    operator: 'Sunflower',
    departs: '19:05',
    hours: 12,
  });
  await notes('reader-1').set('budget/2026/changes', ['harbour fees +4 %', 'museum pass', 'night buses']);
  await as('planner')
    .data('plans')
    .set('week/47', { goal: 'Autumn edition', blocked: ['budget'], done: 3 });
  await as('billing').data('metrics').set('tokens/today', 1_284_220);
  const lines: readonly [string, string][] = [
    [
      'planner',
      'Week 47: the autumn edition needs museums, ferries and the budget. Scouts, start with Lisbon.',
    ],
    [
      'scout-lisbon',
      'Azulejo museum confirmed: closed on Mondays. MAAT has two different times, I am asking them.',
    ],
    ['scout-osaka', 'The Sunflower ferry leaves at 19:05 and needs twelve hours.'],
    ['critic', 'Chapter 4 cites a survey that does not exist. I marked it.'],
  ];
  for (const [agent, text] of lines) await as(agent).room('global').post(text);
  const { id: threadId } = await as('planner')
    .room('harbour')
    .post('The budget has two versions. Who knows which one the office uses?');
  const reply = (agent: string, text: string) => as(agent).room('harbour').post(text, { replyTo: threadId });
  await reply('reader-1', 'Page 12 differs: March has the night buses, April does not.');
  await reply('billing', 'The invoices follow April.');
  for (const reader of ['critic', 'writer', 'critic']) await notes(reader).get('museums/lisbon/azulejo');
  return {
    threadId,
    projectId: project.id,
    questionId: question?.id ?? '',
    finalId: final.id,
    runningId: running?.id ?? '',
    agents,
  };
}
