import { describe, expect, test } from 'vitest';
import { useServedProgram } from '../served.js';

const { server, run, json } = useServedProgram();

describe('messaging', () => {
  test('a room is made, posted to, read, searched and cleaned', async () => {
    const room = await json<{ id: string }>('rooms', 'create', 'planning', '--public');
    const first = await json<{ id: string }>(
      'post',
      room.id,
      'the harvest begins',
      '--user',
      'ada',
      '--agent',
      'scout',
    );
    const answer = await json<{ id: string }>('post', room.id, 'noted', '--reply-to', first.id);
    const { items } = await json<{ items: { id: string; from: string; body: string }[] }>(
      'read',
      room.id,
      '--tail',
    );
    expect(items.map(({ body }) => body)).toEqual(['the harvest begins', 'noted']);
    expect((await json<{ items: unknown[] }>('read', room.id, '--thread', answer.id)).items).toHaveLength(2);
    expect((await json<{ items: { id: string }[] }>('find', 'harvest')).items.map(({ id }) => id)).toEqual([
      first.id,
    ]);
    expect(await json('who', items[0]?.from ?? '')).toMatchObject({ name: 'scout', server_kept: true });
    const scout = await json<{ id: string }>('who', 'scout', '--user', 'ada');
    expect(scout).toMatchObject({ id: items[0]?.from, name: 'scout', proven: 'member' });
    expect(await json('who', 'scout', '--keys', '--user', 'ada')).toMatchObject({ id: scout.id });
    expect(
      (await json<{ items: { name: string }[] }>('rooms', 'ls')).items.map(({ name }) => name),
    ).toContain('planning');
    expect(await json('rooms', 'delete-message', room.id, first.id)).toEqual({ deleted: first.id });
    expect((await run('read', '11111111-2222-4333-8444-555555555555')).status).toBe(4);
    expect((await run('read', 'nonsense', '--json')).error()).toMatchObject({
      code: 'not_found',
      detail: 'Unknown room "nonsense".',
    });
  });

  test('direct messages are sent, read and acknowledged', async () => {
    await json('post', 'global', 'I am here', '--user', 'bea');
    const { items } = await json<{ items: { from: string; body: string }[] }>('read', 'global');
    const bea = items.find(({ body }) => body === 'I am here')?.from ?? '';
    const { id } = await json<{ id: string }>('dm', 'send', bea, 'hello', '--user', 'ada');
    expect(
      (await json<{ items: { id: string }[] }>('inbox', '--pending', '--user', 'bea')).items.map(
        (message) => message.id,
      ),
    ).toEqual([id]);
    expect(await json('dm', 'ack', id, '--user', 'bea')).toEqual({ acknowledged: 1 });
    expect((await json<{ items: unknown[] }>('inbox', '--pending', '--user', 'bea')).items).toEqual([]);
  });

  test('blocks are listed, and lifting one that is not there is not found', async () => {
    expect((await json<{ items: unknown[] }>('blocks', 'ls')).items).toEqual([]);
    expect((await run('blocks', 'rm', '203.0.113.7')).status).toBe(4);
  });

  test('the built program serves the page and its files', async () => {
    for (const file of ['/', '/page/page.js', '/page/page.css', '/docs'])
      expect((await fetch(server().url + file)).status, file).toBe(200);
  });
});
