import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Running } from '../running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start({ limits: { dataDocumentsPerUserMax: 1 } });
});
afterAll(() => running.stop());

const put = (key: string) => running.ask('PUT', `/v1/data/n/${key}`, { as: running.bob, body: { value: 1 } });

describe('a refusal contains the received amount, the limit and its name', () => {
  test.each([
    [
      'PUT',
      `/v1/data/${'n'.repeat(300)}/k`,
      { value: 1 },
      'The namespace has 300 bytes, which exceeds 256 (namespaceBytesMax).',
    ],
    ['PUT', '/v1/data/n%07/k', { value: 1 }, 'The namespace contains a control character (U+0007).'],
    [
      'POST',
      '/v1/agents',
      { name: 'a'.repeat(101) },
      'name has 101 characters, which exceeds 100 (agentNameCharactersMax).',
    ],
    ['POST', '/v1/agents', { name: 'a\u0007' }, 'name: The text contains a control character (U+0007).'],
    [
      'POST',
      '/v1/workspaces',
      { name: 'w', project_path: 'p'.repeat(1_025) },
      'project_path has 1,025 bytes, which exceeds 1,024 (projectPathBytesMax).',
    ],
  ])('%s %s', async (method, path, body, detail) => {
    const reply = await running.ask(method, path, { as: running.alice, body });
    expect(reply.json).toMatchObject({ status: 400, detail });
  });

  test.each([
    ['a'.repeat(257), 'The Stoa-Agent header has 257 bytes, which exceeds 256 (agentHeaderBytesMax).'],
    ['%07', 'The Stoa-Agent header contains a control character (U+0007).'],
  ])('in the header Stoa-Agent: %s', async (agent, detail) => {
    const reply = await running.ask('GET', '/v1/agents', {
      as: running.alice,
      headers: { 'stoa-agent': agent },
    });
    expect(reply.json).toMatchObject({ status: 400, detail });
  });

  test('and has the field and the limit in its details', async () => {
    const body = { name: 'a'.repeat(101) };
    const reply = await running.ask('POST', '/v1/agents', { as: running.alice, body });
    expect(reply.json).toMatchObject({
      fix: 'Send fewer characters.',
      errors: [{ field: 'name', message: 'has 101 characters, which exceeds 100 (agentNameCharactersMax)' }],
    });
  });

  test('and suggests raising a limit that is a setting', async () => {
    await put('one');
    expect((await put('two')).json).toMatchObject({
      code: 'quota_exceeded',
      detail: 'After this write the user has 2 documents, which exceeds 1 (dataDocumentsPerUserMax).',
      fix: 'Delete documents that are no longer needed, or raise dataDocumentsPerUserMax.',
    });
  });
});
