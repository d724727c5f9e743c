import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import { Running } from '../server/running.js';
import { TestClient, generations } from './client.js';
import { eventually } from '../until.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start({ limits: { mcpResourcesListed: 2 } });
});
afterAll(() => running.stop());

describe.each(generations)('resources for a client of the %s protocol', (generation) => {
  const namespace = `ns ${generation}`;
  let client: TestClient;
  beforeAll(async () => {
    client = await TestClient.connect(running.url, running.alice, generation);
  });
  afterAll(() => client.close());

  test('are rooms, namespaces and keys, page after page', async () => {
    for (const key of ['a', 'b/c', '..', 'd']) await client.ok('remember', { key, value: key, namespace });
    const uris: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.client.listResources(cursor === undefined ? {} : { cursor });
      uris.push(...page.resources.map(({ uri }) => uri));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(uris).toContain(`stoa://rooms/${globalRoomId}`);
    const own = uris.filter((uri) => uri.startsWith(`stoa://data/${encodeURIComponent(namespace)}`));
    expect(own.length).toBe(5);
    for (const uri of own.slice(1)) {
      const { contents } = await client.client.readResource({ uri });
      const document = JSON.parse((contents[0] as { text: string }).text);
      expect(document.value).toBe(document.key);
    }
  });

  test('have templates', async () => {
    const { resourceTemplates } = await client.client.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual([
      'stoa://data/{namespace}',
      'stoa://data/{namespace}/{key}',
      'stoa://rooms/{id}',
    ]);
  });

  test('show a room with its messages', async () => {
    await client.ok('post', { text: `hello from ${generation}` });
    const { contents } = await client.client.readResource({ uri: 'stoa://rooms/global' });
    expect(JSON.parse((contents[0] as { text: string }).text).messages.at(-1)).toMatchObject({
      text: `hello from ${generation}`,
    });
  });

  test.each([
    'stoa://data/none/none',
    'stoa://data/',
    'stoa://other/x',
    'file:///etc/passwd',
    'stoa://rooms/none',
    'stoa://data/a/b/c',
    'nonsense',
  ])('%s is not found', async (uri) => {
    await expect(client.client.readResource({ uri })).rejects.toThrow();
  });

  test("send updates only for subscribed resources, in the subscriber's spelling", async () => {
    const updated: string[] = [];
    client.client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      updated.push(params.uri);
    });
    const watched = [`stoa://data/${encodeURIComponent(namespace)}/%77atched`, 'stoa://rooms/global'];
    const stop = await subscribe(client, generation, watched);
    await running.stoa.data.set(operatorCaller('alice'), namespace, 'other', 1);
    await running.stoa.data.set(operatorCaller('bob'), namespace, 'watched', 1);
    await running.stoa.data.set(operatorCaller('alice'), namespace, 'watched', 1);
    await eventually(() => expect(updated).toEqual([watched[0]]));
    await client.ok('post', { text: 'news' });
    await eventually(() => expect(updated).toEqual(watched));
    await stop();
    await running.stoa.data.set(operatorCaller('alice'), namespace, 'watched', 2);
    const { version } = (await client.ok('recall', { key: 'watched', namespace })).items[0];
    expect(version).toBe(2);
    expect(updated).toEqual(watched);
  });

  test('send a notification when their list changes', async () => {
    let told = 0;
    client.client.setNotificationHandler('notifications/resources/list_changed', () => {
      told += 1;
    });
    const stop = await subscribe(client, generation, ['stoa://rooms/global']);
    await running.stoa.data.set(operatorCaller('alice'), namespace, `new-${generation}`, 1);
    await eventually(() => expect(told).toBeGreaterThan(0));
    await stop();
  });

  test('that do not exist cannot be subscribed to', async () => {
    await expect(subscribe(client, generation, ['stoa://nowhere/x'])).rejects.toThrow();
  });
});

test('a listener without a stream ends its subscription to the feed', async () => {
  const full = await Running.start({ limits: { streamsMax: 0 } });
  const follow = vi.spyOn(full.stoa.changes, 'follow');
  const client = await TestClient.connect(full.url, full.alice, 'modern');
  await expect(subscribe(client, 'modern', ['stoa://data/default/x'])).rejects.toThrow();
  expect(follow).toHaveBeenCalled();
  await eventually(() => expect(follow.mock.calls.every(([, , signal]) => signal.aborted)).toBe(true));
  await client.close();
  await full.stop();
});

/** The two generations subscribe in different ways. */
async function subscribe(
  { client }: TestClient,
  generation: (typeof generations)[number],
  uris: string[],
): Promise<() => Promise<void>> {
  if (generation === 'modern') {
    const subscription = await client.listen({ resourceSubscriptions: uris, resourcesListChanged: true });
    return () => subscription.close();
  }
  for (const uri of uris) await client.subscribeResource({ uri });
  return async () => {
    for (const uri of uris) await client.unsubscribeResource({ uri });
  };
}
