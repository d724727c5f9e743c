/** `stoa inspect`. */
import { describe, expect, test } from 'vitest';
import { type Agent, useServedProgram } from '../../served.js';

const { run, json } = useServedProgram();

describe('the store', () => {
  test('shows its families, and entries as hex with their meaning', async () => {
    const { agent_id: id } = await json<Agent>('agents', 'create', 'seen', '--user', 'ins');
    const families = await json<{ items: { family: string; entries: number }[] }>('inspect');
    expect(families.items.find(({ family }) => family === 'registry/agents')?.entries).toBeGreaterThan(0);
    const entries = await json<{
      items: { key: string; value: string; decoded: { agent_id: string; name: string } }[];
    }>('inspect', 'agents');
    const entry = entries.items.find(({ decoded }) => decoded.agent_id === id);
    expect(entry?.decoded.name).toBe('seen');
    expect(entry?.key).toMatch(new RegExp(`^[0-9a-f]{64}${id}$`));
    expect(Buffer.from(entry?.value ?? '', 'hex').toString('latin1')).toContain('seen');
  });

  test('shows the rows of the data store as documents, large values apart', async () => {
    await json('data', 'set', 'small', '{"a":[1]}', '--user', 'ins', '--namespace', 'looked-at');
    await json(
      'data',
      'set',
      'large',
      JSON.stringify('x'.repeat(10_000)),
      '--user',
      'ins',
      '--namespace',
      'looked-at',
    );
    const decoded = async (family: string) =>
      (await json<{ items: { decoded: { namespace: string; key: string } }[] }>('inspect', family)).items
        .map((item) => item.decoded)
        .filter(({ namespace }) => namespace === 'looked-at');
    const [large, small] = await decoded('agent_data_store');
    expect(small).toMatchObject({
      _id: 'ins:looked-at:c21hbGw=',
      userId: 'ins',
      key: 'small',
      value: { a: [1] },
      version: 1,
    });
    expect(large).toMatchObject({ key: 'large', version: 1 });
    expect(large).not.toHaveProperty('value');
    expect(await decoded('data/values')).toMatchObject([{ key: 'large', sizeBytes: 10_002 }]);
    expect(await decoded('data/namespaces')).toMatchObject([{ count: 2, sizeBytes: 10_011 }]);
  });

  test('pages entries without losing or repeating one', async () => {
    const whole = await json<{ items: { key: string }[] }>('inspect', 'agents');
    const paged: string[] = [];
    for (let cursor: string | null = null; ;) {
      const page: { items: { key: string }[]; next_cursor: string | null } = await json(
        'inspect',
        'agents',
        '--limit',
        '3',
        ...(cursor === null ? [] : ['--cursor', cursor]),
      );
      paged.push(...page.items.map(({ key }) => key));
      cursor = page.next_cursor;
      if (cursor === null) break;
    }
    expect(paged).toEqual(whole.items.map(({ key }) => key));
  });

  test('refuses a name that several families have, and one that none has', async () => {
    expect((await run('inspect', 'agent_metal', '--json')).error().detail).toContain(
      'Did you mean "agent_meta"?',
    );
    expect((await run('inspect', 'nothing-like-it')).status).toBe(4);
  });
});
