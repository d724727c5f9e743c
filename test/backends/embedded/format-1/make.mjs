/**
 * Made lmdb.json.br and rocksdb.json.br: data directories as the program wrote them in format 1.
 * To make them again: check out commit f2f540a elsewhere, compile it with `npx tsc --outDir dist`, packages linked, then
 *   node make.mjs <that checkout>/dist
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { brotliCompressSync } from 'node:zlib';

const dist = resolve(process.argv[2]);
const { openStoa, operatorCaller } = await import(join(dist, 'index.js'));
const { globalRoomId } = await import(join(dist, 'messaging', 'uuid.js'));
const ada = operatorCaller('ada');
const bob = operatorCaller('bob');

for (const [engine, shards] of [
  ['lmdb', 2],
  ['rocksdb', 1],
]) {
  const data = mkdtempSync(join(tmpdir(), 'stoa-format-1-'));
  const stoa = await openStoa({ data, engine, shards, sweepIntervalMs: 3_600_000 });
  await fillRegistry(stoa);
  await fillRest(stoa);
  const { totals, searches } = await fillMessaging(stoa);
  const lines = [];
  for await (const line of stoa.transfer.export(operatorCaller(), { withSecrets: true })) lines.push(line);
  const agents = (await stoa.registry.listAgents(operatorCaller(), {})).items;
  const expected = { atMs: stoa.kernel.nowMs(), lines, agents, totals, searches };
  await stoa.close();
  const files = Object.fromEntries(
    filesIn(data).map((path) => [relative(data, path), readFileSync(path).toString('hex')]),
  );
  writeFileSync(
    new URL(`${engine}.json.br`, import.meta.url),
    brotliCompressSync(JSON.stringify({ expected, files })),
  );
  rmSync(data, { recursive: true });
}

async function fillRegistry({ registry }) {
  await registry.putUser(operatorCaller(), 'ada', { email: 'ada@example.org', agents_max: 50 });
  for (let number = 0; number < 12; number += 1) {
    const caller = number % 3 === 0 ? bob : ada;
    const { agent_id: id } = await registry.createAgent(caller, {
      name: `agent ${number}`,
      labels: { team: number % 2 === 0 ? 'blue' : 'red' },
    });
    if (number % 2 === 0) await registry.updateAgent(caller, id, { status: 'running' });
    const sessions = number % 2 === 0 ? number % 4 : 0;
    for (let opened = 0; opened < sessions; opened += 1) await registry.openSession(caller, id);
    if (number % 4 === 1) continue;
    await registry.heartbeat(caller, id, { holder: 'first host' });
    if (number % 4 === 2) {
      await registry.releaseLease(caller, id, { holder: 'first host' });
      await registry.heartbeat(caller, id, { holder: 'second host' });
    }
  }
  const { agent_id: busy } = await registry.createAgent(ada, { name: 'closed one of two sessions' });
  await registry.updateAgent(ada, busy, { status: 'running' });
  const { session_id: closed } = await registry.openSession(ada, busy);
  await registry.openSession(ada, busy);
  await registry.closeSession(ada, closed);
}

async function fillRest({ data, workspaces }) {
  await data.set(ada, 'notes', 'ключ/é', { n: [1, null, 'x'] }, { metadata: { a: 1 } });
  await data.set(ada, 'notes', 'twice', 1);
  await data.set(ada, 'notes', 'twice', 2);
  await data.set(bob, 'default', 'long', 'x'.repeat(5_000));
  const workspace = await workspaces.createWorkspace(ada, {
    name: 'site',
    project_path: '/srv/site',
    claude_key: 'sk-ant-in-the-clear',
  });
  const project = await workspaces.createProject(ada, workspace.id, {
    name: 'web',
    config: { model: 'm', api_key: 'config-in-the-clear' },
  });
  const session = await workspaces.createSession(ada, project.id, { status: 'active' });
  const first = await workspaces.createTask(ada, session.id, { command: 'first' });
  await workspaces.createTask(ada, session.id, { command: 'second', depends_on: [first.id] });
  const claim = await workspaces.claimTask(operatorCaller('ada', 'worker'), project.id);
  await workspaces.completeTask(operatorCaller('ada', 'worker'), claim.task.id, {
    fence: claim.lease.fence,
    output: 'done',
  });
  await workspaces.deleteWorkspace(ada, (await workspaces.createWorkspace(ada, { name: 'gone' })).id);
}

async function fillMessaging({ messaging: { port }, registry }) {
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
  const [agent] = (await registry.listAgents(ada, {})).items;
  await registry.linkIdentity(ada, agent.agent_id, writer.id);
  const post = (roomId, body, parentId = null) =>
    port.post({ roomId, from: writer.id, body, parentId, proof: null, serverSigned: false });
  for (let number = 0; number < 7; number += 1) {
    const room = await port.createRoom({
      name: `room ${number}`,
      isPrivate: false,
      keyHash: null,
      createdBy: writer.id,
    });
    for (let message = 0; message <= number; message += 1)
      await post(room.id, `a word about number ${number}, message${message}`);
  }
  const closed = await port.createRoom({
    name: 'closed',
    isPrivate: true,
    keyHash: '$2b$10$hash',
    createdBy: writer.id,
  });
  const root = await post(globalRoomId, 'hello everybody, 여러분 안녕하세요');
  await post(globalRoomId, 'an answer to everybody', root.id);
  await post(closed.id, 'a hidden word');
  const taken = await post(globalRoomId, 'a word that is taken back');
  await port.deleteMessage(globalRoomId, taken.id);
  await port.send({ from: writer.id, to: reader.id, body: 'between us', proof: null, serverSigned: false });
  const searches = {};
  for (const words of ['word', 'everybody', 'number message3', 'hidden', '안녕', 'taken']) {
    const { messages } = await port.search({
      words: words === '안녕' ? ['안녕'] : words.split(' '),
      roomId: null,
      limit: 100,
      afterMs: 0,
    });
    searches[words] = messages.map(({ id }) => id);
  }
  return { totals: await port.totals(), searches };
}

/** RocksDB's talk about itself is left out. */
function filesIn(directory) {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return filesIn(path);
    return /^(LOG.*|LOCK|lock\.mdb|stoa\.lock)$/.test(entry.name) ? [] : [path];
  });
}
