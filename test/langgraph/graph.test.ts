import {
  Annotation,
  Command,
  END,
  INTERRUPT,
  type LangGraphRunnableConfig,
  START,
  StateGraph,
  interrupt,
  isInterrupted,
} from '@langchain/langgraph';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { StoaSaver, StoaStore } from '../../src/langgraph/index.js';
import { Running } from '../server/running.js';

let running: Running;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-graph-'));
  running = await Running.start({ data: directory, engine: 'lmdb' });
});
afterAll(async () => {
  await running.stop();
  await rm(directory, { recursive: true });
});

/** The server is closed and opened again on the same directory. */
async function restart(): Promise<void> {
  await running.stop();
  running = await Running.start({ data: directory, engine: 'lmdb' });
}

const State = Annotation.Root({
  user: Annotation<string>,
  steps: Annotation<string[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
  answer: Annotation<string>,
});

/** Remembers what a user likes, asks a person to agree, then answers from memory. */
function compiled() {
  const client = new Stoa({ url: running.url, token: running.alice, agent: 'graph' });
  const [checkpointer, store] = [new StoaSaver({ client }), new StoaStore({ client })];
  const graph = new StateGraph(State)
    .addNode('learn', async ({ user }, config: LangGraphRunnableConfig) => {
      await config.store?.put(['users', user], 'likes', { food: 'figs', rating: 5 });
      return { steps: ['learn'] };
    })
    .addNode('ask', () => ({ steps: [`ask:${String(interrupt({ question: 'May I?' }))}`] }))
    .addNode('recall', async ({ user }, config: LangGraphRunnableConfig) => {
      const found = await config.store?.search(['users', user], { filter: { rating: { $gte: 4 } } });
      return { steps: ['recall'], answer: String(found?.[0]?.value['food']) };
    })
    .addEdge(START, 'learn')
    .addEdge('learn', 'ask')
    .addEdge('ask', 'recall')
    .addEdge('recall', END)
    .compile({ checkpointer, store });
  return { graph, checkpointer, store };
}

test('a thread stops at an interrupt, and continues with the answer after a restart', async () => {
  const thread = { configurable: { thread_id: 'interrupted' } };
  const first = await compiled().graph.invoke({ user: 'ada' }, thread);
  expect(isInterrupted(first) && first[INTERRUPT][0]?.value).toEqual({ question: 'May I?' });
  await restart();
  const { graph } = compiled();
  const waiting = await graph.getState(thread);
  expect([waiting.next, waiting.tasks[0]?.interrupts[0]?.value]).toEqual([['ask'], { question: 'May I?' }]);
  expect(await graph.invoke(new Command({ resume: 'yes' }), thread)).toMatchObject({
    steps: ['learn', 'ask:yes', 'recall'],
    answer: 'figs',
  });
  expect((await graph.getState(thread)).next).toEqual([]);
});

test('a finished thread keeps its state, and a later turn builds on it; other threads begin empty', async () => {
  const thread = { configurable: { thread_id: 'turns' } };
  await compiled().graph.invoke({ user: 'eve' }, thread);
  await compiled().graph.invoke(new Command({ resume: 1 }), thread);
  await restart();
  const { graph } = compiled();
  await graph.invoke({ user: 'eve' }, thread);
  expect(await graph.invoke(new Command({ resume: 2 }), thread)).toMatchObject({
    steps: ['learn', 'ask:1', 'recall', 'learn', 'ask:2', 'recall'],
  });
  expect((await graph.getState({ configurable: { thread_id: 'other' } })).values).toEqual({});
});

test('the history of a thread is kept, and a run can fork from any checkpoint', async () => {
  const thread = { configurable: { thread_id: 'forked' } };
  const { graph, checkpointer } = compiled();
  await graph.invoke({ user: 'bob' }, thread);
  await graph.invoke(new Command({ resume: 'first' }), thread);
  const history = [];
  for await (const state of graph.getStateHistory(thread)) history.push(state);
  expect(history.map(({ next }) => next)).toEqual([[], ['recall'], ['ask'], ['learn'], ['__start__']]);
  const asked = history[2];
  const forked = await graph.updateState(asked?.config ?? thread, { user: 'mallory' });
  await graph.invoke(null, forked);
  expect(await graph.invoke(new Command({ resume: 'second' }), thread)).toMatchObject({
    user: 'mallory',
    steps: ['learn', 'ask:second', 'recall'],
    answer: 'undefined',
  });
  expect((await graph.getState(asked?.config ?? thread)).values).toMatchObject({ user: 'bob' });
  await checkpointer.deleteThread('forked');
  expect((await graph.getState(thread)).values).toEqual({});
});

test('a failed node keeps the state of the thread, and parallel nodes do not run again', async () => {
  const client = new Stoa({ url: running.url, token: running.alice });
  const runs: string[] = [];
  const graph = new StateGraph(State)
    .addNode('steady', () => {
      runs.push('steady');
      return { steps: ['steady'] };
    })
    .addNode('shaky', () => {
      runs.push('shaky');
      if (runs.filter((run) => run === 'shaky').length === 1) throw new Error('not yet');
      return { steps: ['shaky'] };
    })
    .addEdge(START, 'steady')
    .addEdge(START, 'shaky')
    .compile({ checkpointer: new StoaSaver({ client, namespace: 'shaky' }) });
  const thread = { configurable: { thread_id: 't' } };
  await expect(graph.invoke({ user: 'ada' }, thread)).rejects.toThrow('not yet');
  expect(await graph.invoke(null, thread)).toMatchObject({
    steps: expect.arrayContaining(['steady', 'shaky']),
  });
  expect(runs.toSorted()).toEqual(['shaky', 'shaky', 'steady']);
});

test('a nested graph has separate checkpoints in the thread', async () => {
  const client = new Stoa({ url: running.url, token: running.alice });
  const inner = new StateGraph(State)
    .addNode('inside', () => ({ steps: [`inside:${String(interrupt('inner?'))}`] }))
    .addEdge(START, 'inside')
    .compile();
  const graph = new StateGraph(State)
    .addNode('outer', inner)
    .addEdge(START, 'outer')
    .compile({ checkpointer: new StoaSaver({ client, namespace: 'nested' }) });
  const thread = { configurable: { thread_id: 't' } };
  await graph.invoke({ user: 'ada' }, thread);
  expect((await graph.getState(thread, { subgraphs: true })).tasks[0]?.state).toMatchObject({
    next: ['inside'],
  });
  expect(await graph.invoke(new Command({ resume: 'ok' }), thread)).toMatchObject({ steps: ['inside:ok'] });
});

test('items stored by nodes are found by filter and namespace, and expire', async () => {
  const { store } = compiled();
  await store.put(['users', 'zoe'], 'likes', { food: 'dates', rating: 2 });
  await store.put(['users', 'zoe', 'moods'], 'now', { mood: 'calm' }, undefined, { ttlSeconds: 1 });
  expect(
    (await store.search(['users'], { filter: { rating: { $lt: 4 } } })).map(({ namespace, key }) => [
      ...namespace,
      key,
    ]),
  ).toEqual([['users', 'zoe', 'likes']]);
  expect(await store.listNamespaces({ prefix: ['users'], suffix: ['moods'] })).toEqual([
    ['users', 'zoe', 'moods'],
  ]);
  expect(await store.listNamespaces({ prefix: ['users'], maxDepth: 1 })).toEqual([['users']]);
  await expect.poll(() => store.get(['users', 'zoe', 'moods'], 'now')).toBeNull();
  await restart();
  expect((await compiled().store.get(['users', 'zoe'], 'likes'))?.value).toEqual({
    food: 'dates',
    rating: 2,
  });
});
