/** A store with something in every family. */
import { kernelOf } from '../../kernel-of.js';
import { restoreMessage } from '../../../src/homes/directory/messaging/messages/messages.js';
import { readRoom } from '../../../src/homes/directory/messaging/rooms/rooms.js';
import { countImportedMessage } from '../../../src/homes/directory/messaging/totals.js';
import { families as messaging } from '../../../src/homes/directory/messaging/rows.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { writeOne } from '../../../src/core/write.js';
import { newUlid } from '../../../src/messaging/messages/ulid.js';
import { uuidBytes } from '../../../src/messaging/identities/uuid.js';
import { userKey } from '../../../src/identity/user-key.js';
import type { Stoa } from '../../../src/index.js';
import { keepAnswer } from '../../../src/homes/directory/kept-answers.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';
import { linkIdentity } from '../../../src/registry/conformance/bench.js';

/** Not at the end of a step of expiry: messages that follow each other share a timer. */
export const nowMs = Date.UTC(2026, 4, 1, 12, 0, 5);

const ada = operatorCaller('ada', 'planner');

/** Rows in every family with a fixed clock: only the damage changes them. */
export async function populate(stoa: Stoa): Promise<void> {
  const { registry, data, workspaces, identity } = stoa;
  const opened = kernelOf(stoa);
  const port = writtenPort(stoa.messaging);
  const { token } = await identity.createToken(operatorCaller(), 'ada', { expires_in: 3600 }, null);
  await identity.authenticate(token);
  await identity.flush();

  for (const [namespace, key, value] of [
    ['notes', 'a', 1],
    ['notes', 'b', 'x'.repeat(20_000)],
    ['plans', 'a', 1],
  ] as const)
    await data.set(ada, namespace, key, value);
  await data.set(operatorCaller('ada', 'writer'), 'notes', 'brief', 1, { ttl: 3600 });
  await data.get(operatorCaller('ada', 'reader'), 'plans', 'a');
  await data.tracker.flush();

  await registry.putUser(operatorCaller(), 'ada', { agents_max: 20 });
  const agent = await registry.createAgent(
    ada,
    { name: 'scout', labels: { team: 'red' } },
    { scope: 'ada', key: 'agent', fingerprint: 'f', seconds: 60 },
  );
  await registry.start(ada, agent.agent_id);
  await registry.openSession(ada, agent.agent_id);
  await registry.heartbeat(ada, agent.agent_id, { holder: 'node-1' });

  const workspace = await workspaces.createWorkspace(ada, { name: 'home' });
  const project = await workspaces.createProject(ada, workspace.id, { name: 'house', path: '/house' });
  const session = await workspaces.createSession(ada, project.id, { status: 'active', max_idle_time: 600 });
  const first = await workspaces.createTask(ada, session.id, { command: 'first' });
  await workspaces.createTask(ada, session.id, { command: 'second', depends_on: [first.id] });
  await workspaces.claimTask(ada, project.id);
  await stoa.locks.acquire(ada, 'src/app.ts', { ttl: 600, note: 'editing' });

  const { identity: author } = await port.register({
    publicKey: `${'A'.repeat(43)}=`,
    name: 'author',
    email: null,
    proven: true,
  });
  const { identity: reader } = await port.register({
    publicKey: `${'B'.repeat(42)}A=`,
    name: 'reader',
    email: null,
    proven: true,
  });
  await linkIdentity({ registry, writer: stoa.home.writer }, ada, agent.agent_id, author.id);
  const kept = {
    id: 'ab'.repeat(4) + '-abab-4bab-8bab-abababababab',
    keptFor: { user: 'ada', agent: agent.name },
    acts: false,
    publicKey: `${'C'.repeat(42)}A=`,
    name: 'kept',
    email: null,
    proven: true,
    sealedSeed: 'sealed',
  };
  const creating = stoa.messaging.port.createRoom({
    name: 'open',
    isPrivate: false,
    keyHash: null,
    createdBy: author.id,
    owner: null,
    retentionSeconds: null,
  });
  const making = stoa.messaging.port.keepFirst([kept], creating);
  const room = await writeOne(stoa.home.writer, { caller: operatorCaller() }, making);
  const closed = await port.createRoom({
    name: 'closed',
    isPrivate: true,
    keyHash: 'hash',
    createdBy: author.id,
    owner: null,
    retentionSeconds: null,
  });
  const post = (roomId: string, body: string, parentId: string | null = null) =>
    port.post({ roomId, from: author.id, body, parentId, proof: null, serverSigned: false });
  const opening = await post(room.id, 'filed words are filed early');
  await post(closed.id, 'nobody finds this');
  await post(room.id, 'filed words come again', opening.id);
  await post(room.id, 'these words wait', opening.id);
  // As another AICQ server writes one: its id and its time are of two moments.
  const imported = {
    id: newUlid(nowMs - 3),
    roomId: closed.id,
    rootId: null,
    tsMs: nowMs + 9,
    from: author.id,
    body: 'late',
    parentId: null,
    proof: null,
    serverSigned: false,
  };
  await opened.root.transact((tx) => {
    const row = readRoom(tx, uuidBytes(closed.id));
    if (row === undefined) return;
    countImportedMessage(tx, row);
    restoreMessage(tx, stoa.limits, { ...row, messageCount: 2 }, imported);
  });
  const direct = { from: author.id, to: reader.id, body: 'sealed', proof: null, serverSigned: false };
  const { id } = await port.send(direct);
  await port.send(direct);
  await port.acknowledge(reader.id, [id]);
  await port.claimNonce(author.id, 'a-nonce').then(({ durable }) => durable);
  await port.block({ address: '203.0.113.7', reason: 'noise', expiresAtMs: nowMs + 60_000 });
  await opened.root.transact((tx) => {
    keepAnswer(
      tx,
      userKey('ada'),
      { scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 },
      [1],
      stoa.limits,
    );
    tx.put(messaging.rateWindows, Buffer.from('violations'), Buffer.from('[]'));
  });
}
