import { afterAll, beforeAll, expect, test } from 'vitest';
import { Running } from '../server/running.js';
import { TestClient } from './client.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

test('two agents: one stores, asks and posts; the other claims, reads, answers and completes', async () => {
  const asker = await TestClient.connect(running.url, running.alice, 'legacy', { 'stoa-agent': 'asker' });
  const doer = await TestClient.connect(running.url, running.alice, 'modern', { 'stoa-agent': 'doer' });

  // The worker waits before there is a task.
  const waiting = doer.ok('work', { action: 'claim', project: 'harvest', wait_seconds: 30 });
  await asker.ok('agents', { action: 'register', labels: { role: 'planner' } });
  await asker.ok('remember', { key: 'harvest/fields', value: ['north', 'south'] });
  const { tasks } = await asker.ok('tasks', {
    action: 'create',
    project: 'harvest',
    command: 'Count the fields under the key harvest/fields',
  });
  const question = await asker.ok('post', {
    room: 'harvest',
    text: 'Who counts the fields? The task is up.',
  });

  const claim = await waiting;
  expect(claim.task).toMatchObject({ id: tasks[0].id, claimed_by: 'doer' });
  const room = await doer.ok('read', { room: 'harvest' });
  expect(room.messages).toMatchObject([{ from: 'asker', id: question.id }]);
  const fields = (await doer.ok('recall', { key: 'harvest/fields' })).items[0];
  expect(fields.createdByAgent).toBe('asker');

  // The result and the end of the task are one step.
  const outcome = await doer.ok('commit', {
    checks: [{ check: 'data', key: 'harvest/fields', version: fields.version }],
    operations: [
      { op: 'data.set', key: 'harvest/count', value: (fields.value as unknown[]).length },
      { op: 'task.complete', task_id: claim.task.id, fence: claim.fence, output: 'counted' },
    ],
  });
  expect(outcome).toMatchObject({ ok: true });
  await doer.ok('post', {
    room: 'harvest',
    text: 'Two fields. It is under harvest/count.',
    reply_to: question.id,
  });
  await doer.ok('post', { to: 'asker', text: 'Done, see the room.' });

  const answer = await asker.ok('read', { room: 'harvest', after: question.ts, wait_seconds: 10 });
  expect(answer.messages).toMatchObject([{ from: 'doer', reply_to: question.id }]);
  expect((await asker.ok('read', { inbox: true, wait_seconds: 10 })).messages).toMatchObject([
    { from: 'doer', text: 'Done, see the room.' },
  ]);
  expect((await asker.ok('tasks', { action: 'get', task: claim.task.id })).tasks[0]).toMatchObject({
    status: 'completed',
    output: 'counted',
  });
  expect((await asker.ok('recall', { key: 'harvest/count' })).items[0].value).toBe(2);
  expect((await asker.ok('find', { query: 'fields harvest', in: ['messages'] })).items).toContainEqual(
    expect.objectContaining({ kind: 'messages', place: 'harvest' }),
  );
  expect((await asker.ok('recall', { query: 'how many were counted at the harvest' })).items).toContainEqual(
    expect.objectContaining({ key: 'harvest/count', value: 2 }),
  );

  // Nobody of another user can join in.
  const stranger = await TestClient.connect(running.url, running.bob, 'modern', { 'stoa-agent': 'doer' });
  expect(
    (
      await stranger.call('work', {
        action: 'complete',
        task: claim.task.id,
        fence: claim.fence,
        output: 'mine',
      })
    ).value.code,
  ).toBe('not_found');
  expect((await stranger.ok('read', { inbox: true })).messages).toEqual([]);
  await Promise.all([asker.close(), doer.close(), stranger.close()]);
});
