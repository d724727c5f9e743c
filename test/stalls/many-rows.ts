/** A store with much of everything that a list, a search, an export or the doctor walks over. */
import { randomBytes } from 'node:crypto';
import type { Caller } from '../../src/core/caller.js';
import { operatorCaller } from '../../src/core/caller.js';
import type { Stoa } from '../../src/index.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';

export interface ManyRows {
  /** An agent of alice with `count` sessions. */
  agentId: string;
  projectId: string;
  sessionId: string;
  workspaceId: string;
  /** A messaging identity with `count` direct messages. */
  inbox: string;
}

const alice = operatorCaller('alice');
const atOnce = 2_000;

/** Calls `make` for each number below `count`, many at a time: they share commits. */
async function each(count: number, make: (index: number) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < count; from += atOnce)
    await Promise.all(
      Array.from({ length: Math.min(atOnce, count - from) }, (_, index) => make(from + index)),
    );
}

/** So many documents and as many namespaces, which are made quickly; `count` of everything else. */
export async function fillWithManyRows(stoa: Stoa, documentCount: number, count: number): Promise<ManyRows> {
  const { data, registry, workspaces, messaging, locks } = stoa;
  const port = writtenPort(messaging);
  await documents(stoa, alice, documentCount);
  await namespaces(stoa, documentCount);
  // A different agent for each write in one namespace.
  await each(count, (index) => data.set(operatorCaller('alice', `worker-${index}`), 'crowded', 'k', index));
  // Half of them have a separate user, so that there are as many users.
  await each(count, (index) =>
    registry.createAgent(index % 2 === 0 ? alice : operatorCaller(`user-${index}`), {
      name: `agent-${index}`,
      labels: { parity: String(index % 3), half: index < count / 2 ? 'low' : 'high' },
    }),
  );
  const agent = await registry.createAgent(alice, { name: 'busy' });
  await registry.updateAgent(alice, agent.agent_id, { status: 'running' });
  await each(count, () => registry.openSession(alice, agent.agent_id));
  const workspace = await workspaces.createWorkspace(alice, { name: 'site' });
  const project = await workspaces.createProject(alice, workspace.id, { name: 'web' });
  const session = await workspaces.createSession(alice, project.id, { status: 'active' });
  await each(count, (index) => workspaces.createTask(alice, session.id, { command: `do ${index}` }));
  await each(count, (index) => workspaces.createWorkspace(alice, { name: `workspace-${index}` }));
  const identity = async (name: string) =>
    (await port.register({ publicKey: randomBytes(32).toString('base64'), name, email: null, proven: true }))
      .identity.id;
  const writer = await identity('writer');
  const room = await port.createRoom({
    name: 'busy',
    isPrivate: false,
    keyHash: null,
    createdBy: writer,
    owner: null,
    retentionSeconds: null,
  });
  await each(count, (index) => identity(`identity-${index}`));
  await each(count, (index) =>
    port.createRoom({
      name: `room-${index}`,
      isPrivate: false,
      keyHash: null,
      createdBy: writer,
      owner: null,
      retentionSeconds: null,
    }),
  );
  const own = { isPrivate: false, keyHash: null, createdBy: writer, owner: 'alice', retentionSeconds: null };
  await each(count, (index) => port.createRoom({ ...own, name: `own-${index}` }));
  const team = await port.createRoom({ ...own, name: 'team' });
  await each(count, (index) => locks.acquire(alice, `lock-${index}`, { ttl: 3_600 }));
  await largeTasks(stoa, project.id, session.id);
  const written = { from: writer, proof: null, serverSigned: false };
  await each(count, (index) =>
    port.post({ ...written, roomId: team.id, body: `common own${index}`, parentId: null }),
  );
  await each(count, (index) =>
    port.post({ ...written, roomId: room.id, body: `common word${index % 10} rare${index}`, parentId: null }),
  );
  await each(count, (index) => port.send({ ...written, to: writer, body: `direct ${index}` }));
  return {
    agentId: agent.agent_id,
    projectId: project.id,
    sessionId: session.id,
    workspaceId: workspace.id,
    inbox: writer,
  };
}

/** Tasks with the longest output that is allowed. */
async function largeTasks({ workspaces, limits }: Stoa, projectId: string, sessionId: string): Promise<void> {
  const output = 'x'.repeat(limits.taskOutputBytesMax - 100);
  for (let made = 0; made < 8; made += 1) {
    await workspaces.createTask(alice, sessionId, { command: 'large', labels: ['large'] });
    const claim = await workspaces.claimTask(alice, projectId, { labels: ['large'] });
    if (claim === null) throw new Error('The task that was just created is not ready.');
    await workspaces.completeTask(alice, claim.task.id, { fence: claim.lease.fence, output });
  }
}

async function documents(stoa: Stoa, caller: Caller, count: number): Promise<void> {
  const perBatch = 1_000;
  for (let from = 0; from < count; from += perBatch)
    await stoa.data.setMany(
      caller,
      'many',
      Object.fromEntries(
        Array.from({ length: perBatch }, (_, index) => [`key-${from + index}`, { n: index }]),
      ),
    );
}

/** Each document in a separate namespace. */
async function namespaces({ data, home }: Stoa, count: number): Promise<void> {
  const wide = operatorCaller('wide');
  await data.set(wide, 'model', 'k', 1);
  const model = await data.getRecord(wide, 'model', 'k');
  if (model === undefined) throw new Error('The document that was just written is not there.');
  for (let from = 0; from < count; from += atOnce)
    for (const step of home.data.restore(
      Array.from({ length: Math.min(atOnce, count - from) }, (_, index) => ({
        ...model,
        namespace: `namespace-${from + index}`,
      })),
      { isCounted: true },
    ))
      await home.writer.write({ caller: operatorCaller() }, [step]);
}
