/** A store with something of every kind in it, and its export in a shape that can be compared. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { userKey } from '../../src/identity/user-key.js';
import type { Stoa } from '../../src/index.js';
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import type { ImportReport, TransferDomain } from '../../src/transfer/model.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';
import { linkIdentity } from '../../src/registry/conformance/bench.js';

export const secret = 'sk-ant-in-the-clear';
export const configSecret = 'config-in-the-clear';
export const ada = operatorCaller('ada');
export const bob = operatorCaller('bob');

export async function linesOf(
  stoa: Stoa,
  options: { user?: string; domains?: TransferDomain[]; withSecrets?: boolean } = {},
): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of stoa.transfer.export(operatorCaller(), options)) lines.push(line);
  return lines;
}

/** Records without header and last line, sorted, and without fields that time and use change. */
export function comparable(lines: readonly string[]): unknown[] {
  return lines
    .slice(1, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ type, id }) => !(type === 'messaging.room' && id === globalRoomId))
    .map(({ last_seen_at: _seen, ...rest }) => rest)
    .map((record) => Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1))))
    .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

export async function fill(stoa: Stoa): Promise<void> {
  await stoa.registry.putUser(operatorCaller(), 'ada', { email: 'ada@example.org', agents_max: 50 });
  const agent = await stoa.registry.createAgent(ada, { name: 'scout', labels: { team: 'blue' } });
  await stoa.registry.updateAgent(ada, agent.agent_id, { status: 'running' });
  await stoa.registry.heartbeat(ada, agent.agent_id, { holder: 'host' });
  await stoa.registry.openSession(ada, agent.agent_id);
  await stoa.registry.createAgent(bob, { name: 'other' });
  await stoa.data.set(ada, 'notes', 'ключ/é', { n: [1, null, 'x'] }, { metadata: { a: 1 } });
  await stoa.data.set(ada, 'notes', 'twice', 1);
  await stoa.data.set(ada, 'notes', 'twice', 2);
  await stoa.data.set(bob, 'default', 'k', null);
  const workspace = await stoa.workspaces.createWorkspace(ada, {
    name: 'site',
    project_path: '/srv/site',
    claude_key: secret,
  });
  const project = await stoa.workspaces.createProject(ada, workspace.id, {
    name: 'web',
    config: { model: 'm', api_key: configSecret },
  });
  const session = await stoa.workspaces.createSession(ada, project.id, { status: 'active' });
  const first = await stoa.workspaces.createTask(ada, session.id, { command: 'first' });
  await stoa.workspaces.createTask(ada, session.id, {
    command: 'second',
    depends_on: [first.id],
    labels: ['gpu', 'ml'],
    run_at: '2100-01-01T00:00:00Z',
    retry: { base_seconds: 5, max_seconds: 50 },
  });
  await stoa.workspaces.createTask(ada, session.id, { command: 'third', priority: 5 });
  const claim = await stoa.workspaces.claimTask(operatorCaller('ada', 'worker'), project.id);
  await stoa.workspaces.askQuestion(operatorCaller('ada', 'worker'), claim?.task.id as string, {
    fence: claim?.lease.fence as number,
    question: 'Now?',
  });
  await stoa.workspaces.answerQuestion(ada, claim?.task.id as string, { answer: 'Yes' });
  await stoa.workspaces.completeTask(operatorCaller('ada', 'worker'), claim?.task.id as string, {
    fence: claim?.lease.fence as number,
    output: 'done',
  });
  await stoa.workspaces.claimTask(operatorCaller('ada', 'worker'), project.id);
  const gone = await stoa.workspaces.createWorkspace(ada, { name: 'gone' });
  await stoa.workspaces.deleteWorkspace(ada, gone.id);
  const port = writtenPort(stoa.messaging);
  const writer = (
    await port.register({
      publicKey: randomBytes(32).toString('base64'),
      name: 'writer',
      email: null,
      proven: true,
    })
  ).identity;
  const reader = (
    await port.register({
      publicKey: randomBytes(32).toString('base64'),
      name: 'reader',
      email: null,
      proven: true,
    })
  ).identity;
  await linkIdentity({ registry: stoa.registry, writer: stoa.home.writer }, ada, agent.agent_id, writer.id);
  const room = await port.createRoom({
    name: 'closed',
    isPrivate: true,
    keyHash: '$2b$10$hash',
    createdBy: writer.id,
    owner: null,
    retentionSeconds: null,
  });
  const root = await port.post({
    roomId: globalRoomId,
    from: writer.id,
    body: 'hello everybody',
    parentId: null,
    proof: null,
    serverSigned: false,
  });
  await port.post({
    roomId: globalRoomId,
    from: reader.id,
    body: 'an answer',
    parentId: root.id,
    proof: null,
    serverSigned: false,
  });
  await port.post({
    roomId: room.id,
    from: writer.id,
    body: 'hidden',
    parentId: null,
    proof: null,
    serverSigned: false,
  });
  await port.send({ from: writer.id, to: reader.id, body: 'between us', proof: null, serverSigned: false });
}

/** Every home says the same about a workspace whose name is taken. */
export async function expectSameWords(
  { workspaces }: Stoa,
  dryRun: () => Promise<ImportReport>,
): Promise<void> {
  const taken = await workspaces.createWorkspace(ada, { name: 'site' });
  const { conflicts } = await dryRun();
  expect(conflicts.map(({ detail }) => detail)).toContain(
    `The name "site" is taken by the workspace ${taken.id}.`,
  );
}

/** After the import of a filled store: the agent gets another name and holds a task, and the import is repeated. */
export async function expectHolderKeepsName(
  stoa: Stoa,
  importAgain: (options: { dryRun?: boolean; onConflict?: 'replace' }) => Promise<ImportReport>,
): Promise<void> {
  const { registry, workspaces } = stoa;
  const [agent] = (await registry.listAgents(ada, { name: 'scout' })).items;
  const agentId = agent?.agent_id as string;
  await registry.updateAgent(ada, agentId, { name: 'holder' });
  const [workspace] = (await workspaces.listWorkspaces(ada)).items;
  const [project] = (await workspaces.listProjects(ada, workspace?.id as string)).items;
  const [session] = (await workspaces.listSessions(ada, project?.id as string)).items;
  await workspaces.createTask(ada, session?.id as string, { command: 'held', priority: 9 });
  expect(await workspaces.claimTask(operatorCaller('ada', 'holder'), project?.id as string)).not.toBeNull();
  const { conflicts } = await importAgain({ dryRun: true });
  expect(conflicts.filter(({ type }) => type === 'registry.agent')).toMatchObject([
    {
      kind: 'holds_tasks',
      detail: 'The agent "holder" holds tasks under this name, so it cannot become "scout".',
    },
  ]);
  expect(await conflictsOfHexUser(stoa, agentId, 'scout')).toEqual(['holds_tasks']);
  await importAgain({ onConflict: 'replace' });
  expect((await registry.getAgent(ada, agentId)).name).toBe('holder');
}

/** The claims of an agent have the readable id of its user; a line may have the hash of it. */
async function conflictsOfHexUser(stoa: Stoa, agentId: string, name: string): Promise<string[]> {
  const [header = '', ...lines] = await linesOf(stoa, { user: 'ada', domains: ['registry'] });
  const line = lines.find((each) => each.includes('"registry.agent"') && each.includes(agentId)) ?? '';
  const spelled = { ...(JSON.parse(line) as object), user: userKey('ada').toString('hex'), name };
  const directory = await mkdtemp(join(tmpdir(), 'stoa-spelled-'));
  const path = join(directory, 'export.ndjson');
  await writeFile(path, `${header}${JSON.stringify(spelled)}\n`);
  const { conflicts } = await stoa.transfer.import(operatorCaller(), path, { dryRun: true, keepGoing: true });
  await rm(directory, { recursive: true });
  return conflicts.map(({ kind }) => kind);
}
