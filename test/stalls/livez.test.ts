/** /livez answers during large lists, searches, exports and examinations. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';
import { type ManyRows, fillWithManyRows } from './many-rows.js';

/**
 * Documents and namespaces; `STALL_ROWS` is the number of everything else. `npm run test:stalls` has more of
 * both: work that reads them all without a pause takes longer than `delayMsMax` with these numbers too.
 */
const documentRows = Number(process.env['STALL_DOCUMENTS'] ?? 10_000);
const rows = Number(process.env['STALL_ROWS'] ?? 2_000);
const engine = process.env['STALL_ENGINE'] === 'rocksdb' ? 'rocksdb' : 'lmdb';
const delayMsMax = 100;
/** Other load on the machine delays some attempts; long synchronous work delays every attempt. */
const attemptsMax = 10;
/** Requests at once. Eight show whether the turns of several requests add up; the long form asks sixteen. */
const requestsAtOnce = process.env['STALL_ROWS'] === undefined ? 8 : 16;
const noLimit = 1_000_000_000;

interface Asked {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
}

interface Watched {
  answers: { status: number; sizeBytes: number }[];
  longestMs: number;
  tookMs: number;
}

let directory: string;
let running: Running;
let watcher: Worker;
let many: ManyRows;
let narrow: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-stalls-'));
  running = await Running.start({
    data: directory,
    engine,
    storeConfig: { sync_writes: false },
    limits: {
      agentsPerUserMax: noLimit,
      locksPerUserMax: noLimit,
      ownRoomsMax: noLimit,
      sessionsPerAgentMax: 0,
      messageBytesPerMinuteMax: noLimit,
      messageClockAheadSecondsMax: noLimit,
      searchesPerMinuteMax: noLimit,
      channelReadsPerMinuteMax: noLimit,
      roomReadsPerMinuteMax: noLimit,
      addressRequestsPerMinuteMax: noLimit,
    },
  });
  many = await fillWithManyRows(running.stoa, documentRows, rows);
  const members = Array.from({ length: 7_000 }, (_, index) => [`member-${index}`, index] as const);
  await running.stoa.data.set(operatorCaller('alice'), 'changed', 'wide', Object.fromEntries(members));
  await running.stoa.data.set(operatorCaller('alice'), 'changed', 'large', 'x'.repeat(1_000_000));
  const beginnings = `tokenheap ${'eyJ-'.repeat(16_000)}`;
  await running.stoa.data.set(operatorCaller('alice'), 'changed', 'tokens', beginnings);
  const scopes = { write: true, namespaces: [`namespace-${documentRows - 1}`, 'none'] };
  narrow = (await running.stoa.identity.createToken(operatorCaller(), 'wide', { scopes }, null)).token;
  watcher = new Worker(new URL('watcher.mjs', import.meta.url), { workerData: { url: running.url } });
}, 1_800_000);
afterAll(async () => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  watcher.postMessage('stop');
  await once(watcher, 'exit');
  await running.stop();
  await rm(directory, { recursive: true });
});

async function watched(requests: readonly Asked[]): Promise<Watched> {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  watcher.postMessage({ requests });
  const [answer] = (await once(watcher, 'message')) as [Watched];
  return answer;
}

/** The shortest of the longest delays of /livez while the requests run, all at once. */
async function delayMs(requests: readonly Asked[]): Promise<number> {
  let leastMs = Infinity;
  for (let attempt = 0; attempt < attemptsMax && leastMs > delayMsMax; attempt += 1) {
    const { answers, longestMs, tookMs } = await watched(requests);
    for (const { status } of answers) expect([requests[0]?.path, status]).toEqual([requests[0]?.path, 200]);
    leastMs = Math.min(leastMs, longestMs);
    if (process.env['STALL_ROWS'] !== undefined)
      console.log(requests[0]?.path.slice(0, 60), Math.round(longestMs), Math.round(tookMs), answers[0]);
  }
  return leastMs;
}

const bearer = (token: string, user?: string) => ({
  authorization: `Bearer ${token}`,
  ...(user !== undefined && { 'stoa-user': user }),
});

function lists(): [name: string, asked: Asked, atOnce?: number][] {
  const alice = bearer(running.alice);
  const operator = bearer(running.operator);
  const get = (path: string, headers: Record<string, string> = alice): Asked => ({ path, headers });
  const post = (path: string, body: unknown, headers: Record<string, string> = alice): Asked => ({
    method: 'POST',
    path,
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const patch = (path: string, body: unknown): Asked => ({
    ...post(path, body),
    method: 'PATCH',
    headers: { ...alice, 'content-type': 'application/merge-patch+json' },
  });
  const mcp = (token: string) =>
    post(
      '/mcp',
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'resources/list',
        params: { cursor: Buffer.from('{"section":"data"}').toString('base64url') },
      },
      {
        ...bearer(token),
        accept: 'application/json, text/event-stream',
      },
    );
  return [
    ['namespaces that a narrow token reaches', get('/v1/data?limit=1', bearer(narrow))],
    ['resources that a narrow token reaches', mcp(narrow)],
    ['namespaces with many agents', get('/v1/data?limit=1000')],
    ['namespaces', get('/v1/data?limit=1000', bearer(running.operator, 'wide'))],
    ['keys', get('/v1/data/many?limit=1000')],
    ['documents', get('/v1/data/many?values=true&limit=1000')],
    ['documents of one user for export', get('/v1/documents?limit=1000', bearer(running.operator, 'wide'))],
    ['documents of all for export', get('/v1/documents?limit=1000', operator)],
    ['agents', get('/v1/agents?limit=1000')],
    ['agents by three filters', get('/v1/agents?status=provisioning&label=half:low&name=nobody')],
    ['agents by label and status', get('/v1/agents?status=running&label=parity:1')],
    ['agents of all users', get('/v1/agents?limit=1000', operator)],
    ['sessions of an agent', get(`/v1/agents/${many.agentId}/sessions?limit=1000`)],
    ['users', get('/v1/users?limit=1000', operator)],
    ['workspaces', get('/v1/workspaces?limit=1000')],
    ['workspaces that a filter leaves out', get('/v1/workspaces?limit=1000&status=active&path=nowhere')],
    ['workspaces by status alone', get('/v1/workspaces?limit=1000&status=archived')],
    ['workspaces of all users, by status', get('/v1/workspaces?limit=1000&status=archived', operator)],
    ['tasks of a session', get(`/v1/sessions/${many.sessionId}/tasks?limit=1000`)],
    ['tasks of all projects', get('/v1/tasks?limit=1000&status=pending')],
    ['tasks of all users that a filter leaves out', get('/v1/tasks?limit=1000&label=none', operator)],
    ['tasks with long outputs', get('/v1/tasks?limit=1000&label=large')],
    ['ready tasks', get(`/v1/projects/${many.projectId}/tasks/ready?limit=1000`)],
    ['locks', get('/v1/locks?limit=1000')],
    ['tokens', get('/v1/users/alice/tokens', operator)],
    ['blocks', get('/v1/blocks', operator)],
    ['identities of an agent', get(`/v1/agents/${many.agentId}/identities`)],
    ['public rooms', get('/channels?limit=100')],
    ['public rooms far down the list', get(`/channels?limit=100&offset=${rows - 50}`)],
    ["a user's own rooms", get('/v1/rooms?limit=1000')],
    ['messages', get('/room/global?limit=200')],
    ["messages of a user's own room", get('/v1/rooms/team/messages?limit=200')],
    ['search of messages for a word that all have', get('/find?q=common&limit=100')],
    ['search of messages for words that few have together', get('/find?q=word1+word2')],
    ['search of messages for a rare word', get('/find?q=rare7+common')],
    // A search reads its index in one turn, so that it sees one state.
    ['search of everything for a word that all have', get('/v1/find?q=common&limit=1000'), 5],
    ['search of tasks for a word that all have', get('/v1/find?q=do&in=tasks&limit=1000'), 5],
    ['search of everything for words that begin so', get('/v1/find?q=own*+rare*'), 1],
    ['search that finds a text with the beginnings of many tokens', get('/v1/find?q=tokenheap')],
    ['search of documents by a condition', post('/v1/find', { namespace: 'many', filter: { n: 7 } })],
    ['reads of a large value', get('/v1/data/changed/large'), 100],
    ['pages of large values', get('/v1/data/changed?values=true'), 60],
    ['changes of a value with many members', patch('/v1/data/changed/wide', { last: 1 }), 100],
    ['changes from the oldest', get('/v1/changes?limit=1000', operator)],
    ['changes of a narrow topic', get('/v1/changes?topics=identity&limit=1000', operator)],
    ['families', get('/v1/inspect', operator)],
    ['rows of a family', get('/v1/inspect/agent_data_store?limit=1000', operator)],
    ['rows of a family with long values', get('/v1/inspect/workspaces%2Ftasks?limit=1000', operator)],
    ['status', get('/v1/status', operator)],
    ['settings', get('/v1/config', operator)],
    ['metrics', get('/metrics', operator)],
    ['stats', get('/stats', operator)],
    ['export of everything', get('/v1/export', operator), 1],
    ['export of a user with little', get('/v1/export', bearer(running.operator, 'user-1'))],
    ['doctor', post('/v1/doctor', {}, operator), 1],
  ];
}

test('/livez waits at most 100 ms while lists, searches, exports and the doctor go over many rows', async () => {
  const delays: Record<string, number> = {};
  for (const [name, asked, atOnce = requestsAtOnce] of lists())
    delays[name] = Math.round(await delayMs(Array.from({ length: atOnce }, () => asked)));
  expect(Object.fromEntries(Object.entries(delays).filter(([, ms]) => ms > delayMsMax))).toEqual({});
}, 1_800_000);
