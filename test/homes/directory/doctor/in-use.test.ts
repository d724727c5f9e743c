/** The doctor during writes: a write in progress is not damage, and repairs do no harm. */
import { kernelOf } from '../../../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { allChecks } from '../../../../src/homes/directory/doctor/doctor.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { examineAll } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';

const ada = operatorCaller('ada', 'planner');
const rounds = 20;

/** Everything that writes, one round after the other. */
async function keepBusy(stoa: Stoa): Promise<void> {
  const { registry, data, workspaces } = stoa;
  const port = writtenPort(stoa.messaging);
  const { identity: author } = await port.register({
    publicKey: `${'A'.repeat(43)}=`,
    name: 'author',
    email: null,
    proven: true,
  });
  const room = await port.createRoom({
    name: 'busy',
    isPrivate: false,
    keyHash: null,
    createdBy: author.id,
    owner: null,
    retentionSeconds: null,
  });
  const workspace = await workspaces.createWorkspace(ada, { name: 'busy' });
  const project = await workspaces.createProject(ada, workspace.id, { name: 'busy' });
  const session = await workspaces.createSession(ada, project.id, { status: 'active', max_idle_time: 600 });
  const round = async (index: number): Promise<void> => {
    const opening = await port.post({
      roomId: room.id,
      from: author.id,
      body: `round ${index} begins`,
      parentId: null,
      proof: null,
      serverSigned: false,
    });
    const direct = { from: author.id, to: author.id, body: 'sealed', proof: null, serverSigned: false };
    const task = workspaces.createTask(ada, session.id, { command: `round ${index}` });
    await Promise.all([
      port.post({
        roomId: room.id,
        from: author.id,
        body: `round ${index} goes on`,
        parentId: opening.id,
        proof: null,
        serverSigned: false,
      }),
      port.send(direct).then(({ id }) => port.acknowledge(author.id, [id])),
      port.send(direct),
      port.claimNonce(author.id, `nonce ${index}`).then(({ durable }) => durable),
      data.set(
        ada,
        `space ${index % 3}`,
        `key ${index}`,
        'x'.repeat(index % 2 === 0 ? 10 : 10_000),
        index % 5 === 0 ? { ttl: 600 } : {},
      ),
      data.delete(ada, `space ${index % 3}`, `key ${index - 6}`, {
        idempotency: { scope: 'ada', key: `delete ${index}`, fingerprint: '', seconds: 600 },
      }),
      task
        .then(() => workspaces.claimTask(ada, project.id))
        .then((claim) =>
          claim === null ? null : workspaces.completeTask(ada, claim.task.id, { fence: claim.lease.fence }),
        ),
    ]);
    const agent = await registry.createAgent(ada, {
      name: `agent ${index}`,
      labels: { round: String(index) },
    });
    await registry.start(ada, agent.agent_id);
    await registry.openSession(ada, agent.agent_id);
    await registry.heartbeat(ada, agent.agent_id, { holder: 'node' });
    await registry.stop(ada, agent.agent_id);
    await registry.updateAgent(ada, agent.agent_id, { status: 'stopped' });
    await registry.deleteAgent(ada, agent.agent_id);
  };
  for (let index = 1; index <= rounds; index += 1) await round(index);
}

it.each(['lmdb', 'rocksdb'] as const)(
  'finds nothing wrong with a store on %s that is in use',
  async (engine) => {
    const directory = await mkdtemp(join(tmpdir(), 'stoa-doctor-'));
    const stoa = await openStoa({ data: directory, engine, limits: { messageBytesPerMinuteMax: 1e9 } });
    const end = new AbortController();
    const busy = Promise.allSettled([keepBusy(stoa)]).finally(() => end.abort());
    const found: unknown[] = [];
    for (let examination = 0; !end.signal.aborted && found.length === 0; examination += 1) {
      for await (const finding of examineAll(kernelOf(stoa).stores, allChecks(kernelOf(stoa)), {
        repair: examination % 2 === 1,
        pageEntries: 5,
      }))
        found.push(finding);
    }
    expect(await busy).toEqual([{ status: 'fulfilled', value: undefined }]);
    for await (const finding of examineAll(kernelOf(stoa).stores, allChecks(kernelOf(stoa))))
      found.push(finding);
    expect(found).toEqual([]);
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  },
);
