/**
 * An attack on a running server: mutated requests of every caller, open streams, expiring records, and a list
 * of acknowledged writes.
 */
import { readFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request as httpRequest } from 'node:http';
import { AgentKeys } from '../../src/client/index.js';
import { signedFetch } from '../../src/client/transport/signed-fetch.js';
import { Random } from './random.js';
import { type AttackRequest, type OpenApi, Requests } from './requests.js';

export interface AttackOptions {
  /** All serve the same Stoa; each request goes to one of them. */
  servers: readonly AttackedServer[];
  operator: string;
  requests: number;
  seed: number;
}

export interface AttackedServer {
  url: string;
  /** The server's process, to separate its work from other load on the machine. */
  pid: number;
}

export interface AttackReport {
  requests: number;
  statuses: Record<string, number>;
  /** Answers that no caller should be able to cause. */
  faults: string[];
  /** Times for which /livez waited while its server worked, in milliseconds. */
  stalls: { ms: number; during: string[] }[];
  longestMs: number;
  streams: number;
  /** What was acknowledged: the key and the number that it must hold at least. */
  acknowledged: Map<string, number>;
  /** The token that reads the acknowledged keys. */
  witness: string;
}

const clients = 16;
/** Waits in requests are a second at most; after this the server has stopped answering. */
const answerMsMax = 30_000;
const stallMs = 250;
/** Answers of 5xx that the documents promise: something is not done here, or not now. */
const promised = new Set(['unsupported', 'overloaded']);

class Silence extends Error {
  override readonly message = `No answer came within ${answerMsMax} ms.`;
}

class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

type Send = (
  request: Omit<AttackRequest, 'operation'>,
  url?: string,
) => Promise<{ status: number; text: string }>;

/** The signature covers the URL of the server. */
type Sign = (request: AttackRequest, url: string) => Promise<AttackRequest> | AttackRequest;

const bearer =
  (token: string, user?: string): Sign =>
  (request) => ({
    ...request,
    headers: {
      authorization: `Bearer ${token}`,
      ...(user !== undefined && { 'stoa-user': user }),
      ...request.headers,
    },
  });

export async function attack({ servers, operator, requests, seed }: AttackOptions): Promise<AttackReport> {
  const random = new Random(seed);
  const anyUrl = (): string => random.of(servers).url;
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const send: Send = (request, url = anyUrl()) =>
    new Promise((resolve, reject) => {
      const sent = httpRequest(`${url}/`, {
        method: request.method,
        path: request.path,
        headers: {
          ...request.headers,
          // Node sends the body of a GET or DELETE without its length, which the server takes for the next
          // request.
          ...(request.body !== undefined && { 'content-length': String(Buffer.byteLength(request.body)) }),
        },
        agent,
        timeout: answerMsMax,
      });
      sent.on('error', reject);
      sent.on('timeout', () => sent.destroy(new Silence()));
      sent.on(
        'response',
        (response) =>
          void textOf(response, sent.destroy.bind(sent)).then(
            (text) => resolve({ status: response.statusCode ?? 0, text }),
            reject,
          ),
      );
      sent.end(request.body);
    });
  const asOperator = { authorization: `Bearer ${operator}`, 'content-type': 'application/json' };
  const must = async (
    method: string,
    path: string,
    body: unknown,
    headers: Record<string, string> = asOperator,
  ) => {
    const { status, text } = await send({ method, path, headers, body: JSON.stringify(body) });
    if (status >= 300) throw new Refused(`${method} ${path}: ${status} ${text}`, status);
    return JSON.parse(text) as { token: string; id: string; agent_id: string; session_id: string };
  };
  const tokenOf = async (user: string, scopes?: object): Promise<string> =>
    (await must('POST', `/v1/users/${user}/tokens`, { ...(scopes && { scopes }) })).token;
  const document = JSON.parse(
    (await send({ method: 'GET', path: '/openapi.json', headers: {}, body: undefined })).text,
  ) as OpenApi;
  const made = new Requests(random, document);
  const identities: string[] = [];
  const witness = await tokenOf('witness');
  const asAlice = { ...asOperator, 'stoa-user': 'alice' };
  const make = (path: string, body: object) => must('POST', path, body, asAlice);
  /** Tokens and things of alice, made again now and then because the attack revokes and deletes them. */
  const makeThings = async (): Promise<void> => {
    await must('PUT', '/v1/users/alice', { agents_max: 1_000_000 });
    callers.splice(0, Infinity, ...(await makeCallers()));
    const { agent_id } = await make('/v1/agents', { name: `agent-${report.requests}` });
    await must('PATCH', `/v1/agents/${agent_id}`, { status: 'running' }, asAlice);
    const agentSession = await make(`/v1/agents/${agent_id}/sessions`, {});
    const workspace = await make('/v1/workspaces', { name: `workspace-${report.requests}` });
    const project = await make(`/v1/workspaces/${workspace.id}/projects`, { name: 'web' });
    const session = await make(`/v1/projects/${project.id}/sessions`, { status: 'active' });
    const task = await make(`/v1/sessions/${session.id}/tasks`, { command: 'do it' });
    const room = await make('/room', { name: 'attacked' });
    await must('PUT', '/v1/data/notes/k1', { value: [1] }, asAlice);
    Object.assign(made.things, {
      agents: [agent_id],
      sessions: [session.id, agentSession.session_id],
      workspaces: [workspace.id],
      projects: [project.id],
      tasks: [task.id],
      users: ['alice', 'bob'],
      data: ['notes', 'default'],
      notes: ['k1', 'k2'],
      room: ['global', room.id],
      who: identities,
      dm: identities,
    });
  };
  const signers: Sign[] = [];
  const callers: Sign[] = [];
  const makeCallers = async (): Promise<Sign[]> => {
    const alice = await tokenOf('alice');
    return [
      bearer(operator),
      bearer(operator, 'alice'),
      bearer(operator, 'alice'),
      ...Array.from({ length: 3 }, () => bearer(alice)),
      bearer(await tokenOf('bob')),
      bearer(await tokenOf('alice', { write: false })),
      bearer(await tokenOf('alice', { namespaces: ['notes'] })),
      bearer('not-a-token'),
      (request) => request,
      ...signers,
    ];
  };

  for (let count = 0; count < 2; count += 1) signers.push(await signer(must, identities));
  const report: AttackReport = {
    requests: 0,
    statuses: {},
    faults: [],
    stalls: [],
    longestMs: 0,
    streams: 0,
    acknowledged: new Map(),
    witness,
  };
  const running = new Set<string>();
  const state = { isOver: false };
  const watch = async ({ url, pid }: AttackedServer): Promise<void> => {
    const own = new Agent({ keepAlive: true });
    while (!state.isOver) {
      const [startedMs, cpuMs] = [performance.now(), await cpuMsOf(pid)];
      const during = [...running];
      await again(
        () =>
          new Promise<void>((resolve, reject) => {
            const asked = httpRequest(`${url}/livez`, { agent: own, timeout: answerMsMax }, (response) =>
              response.resume().on('end', resolve),
            );
            asked.on('error', reject);
            asked.on('timeout', () => asked.destroy(new Silence()));
            asked.end();
          }),
      );
      const ms = performance.now() - startedMs;
      // While the machine ran something else, the server did not work either.
      const workedMs = Math.min(ms, (await cpuMsOf(pid)) - cpuMs);
      report.longestMs = Math.max(report.longestMs, workedMs);
      if (workedMs > stallMs) report.stalls.push({ ms: Math.round(workedMs), during });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    own.destroy();
  };
  const one = async (): Promise<void> => {
    report.requests += 1;
    if (report.requests % 500 === 1)
      await makeThings().catch((error: unknown) => {
        // The attack changes quotas and deletes new records; earlier records are used then.
        if (!(error instanceof Refused) || error.status >= 500) throw error;
      });
    if (report.requests % 50 === 0) return again(() => acknowledge(send, witness, report));
    const plain = made.next();
    const url = anyUrl();
    const request = await random.of(callers)(plain, url);
    const name = `${request.method} ${request.path.slice(0, 200)} ${JSON.stringify(request.body ?? '').slice(0, 300)}`;
    running.add(name);
    try {
      const { status, text } = await send(request, url);
      report.statuses[status] = (report.statuses[status] ?? 0) + 1;
      if (status < 300) made.known.learn(text.slice(0, 20_000));
      if (status >= 500 && !promised.has(codeOf(text)))
        report.faults.push(
          `${status} ${name} ${JSON.stringify(request.headers).slice(0, 300)}: ${text.slice(0, 300)}`,
        );
    } catch (error) {
      if (error instanceof Silence) report.faults.push(`${name}: ${error.message}`);
      // A header that Node does not send never leaves; anything else is a connection that the server closed.
      else if (!(error instanceof TypeError))
        report.statuses['closed'] = (report.statuses['closed'] ?? 0) + 1;
    } finally {
      running.delete(name);
    }
  };
  const streams = await Promise.all([
    openStream(anyUrl(), '/v1/changes', operator),
    openStream(anyUrl(), '/v1/changes?topics=data', await tokenOf('alice')),
    openStream(anyUrl(), '/v1/changes?topics=messaging', await tokenOf('alice')),
    openStream(anyUrl(), '/room/global/stream', undefined),
    openStream(anyUrl(), '/room/global/stream?after=0', undefined),
    openStream(anyUrl(), '/stream?rooms=global', undefined),
  ]);
  report.streams = streams.filter((stream) => stream !== undefined).length;
  await makeThings();
  const attacking = Array.from({ length: clients }, async () => {
    while (report.requests < requests && report.faults.length < 20) await one();
  });
  const attacked = Promise.all(attacking).finally(() => (state.isOver = true));
  await Promise.all([attacked, ...servers.map(watch)]);
  for (const stream of streams) stream?.destroy();
  agent.destroy();
  return report;
}

/** Once more where the server had closed an idle connection in the very moment of its use. */
async function again<Result>(ask: () => Promise<Result>): Promise<Result> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof Silence) throw error;
    return ask();
  }
}

/** A write of the witness, noted when it was acknowledged, and one beside it that expires at once. */
async function acknowledge(
  send: Send,
  witness: string,
  { requests, acknowledged, faults }: AttackReport,
): Promise<void> {
  const key = `k${(requests / 50) % 500}`;
  const headers = { authorization: `Bearer ${witness}`, 'content-type': 'application/json' };
  const { status, text } = await send({
    method: 'PUT',
    path: `/v1/data/ledger/${key}`,
    headers,
    body: JSON.stringify({ value: requests }),
  });
  if (status < 300) acknowledged.set(key, Math.max(acknowledged.get(key) ?? 0, requests));
  else faults.push(`${status} for an acknowledged write: ${text}`);
  const short = await send({
    method: 'PUT',
    path: `/v1/data/short/${key}`,
    headers,
    body: JSON.stringify({ value: 1, ttl: 1 }),
  });
  if (short.status >= 300) faults.push(`${short.status} for a write that expires: ${short.text}`);
}

/** The keys whose acknowledged value is not there. */
export async function lostAcknowledgements(
  url: string,
  { acknowledged, witness }: AttackReport,
): Promise<string[]> {
  const lost: string[] = [];
  for (const [key, least] of acknowledged) {
    const answer = await fetch(`${url}/v1/data/ledger/${key}`, {
      headers: { authorization: `Bearer ${witness}` },
    });
    const { value } = (await answer.json()) as { value?: number };
    if (value === undefined || value < least) lost.push(`${key}: ${value} instead of ${least}`);
  }
  return lost;
}

/** Signs each request as a registered identity. */
async function signer(
  must: (method: string, path: string, body: unknown) => Promise<{ id: string }>,
  identities: string[],
): Promise<Sign> {
  const keys = await AgentKeys.generate();
  const { id } = await must('POST', '/register', { public_key: keys.publicKey, name: 'attacker' });
  identities.push(id);
  return async (request, url) => {
    const headers = new Headers();
    const collect: typeof fetch = async (_input, init) => {
      new Headers(init?.headers).forEach((value, name) => headers.set(name, value));
      return new Response();
    };
    await signedFetch(
      () => keys,
      () => id,
      collect,
    )(url + request.path, {
      method: request.method,
      ...(request.body !== undefined && { body: request.body }),
    });
    return { ...request, headers: { ...request.headers, ...Object.fromEntries(headers) } };
  };
}

/** A stream has no end: its first part is enough. */
async function textOf(response: IncomingMessage, end: () => void): Promise<string> {
  const isStream = response.headers['content-type']?.startsWith('text/event-stream') === true;
  const chunks: Buffer[] = [];
  if (isStream) {
    response.on('error', () => undefined);
    setTimeout(end, 20);
    return '';
  }
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function openStream(
  url: string,
  path: string,
  token: string | undefined,
): Promise<IncomingMessage | undefined> {
  return new Promise((resolve, reject) => {
    const headers = {
      accept: 'text/event-stream',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    };
    httpRequest(url + path, { headers }, (response) => {
      response.on('error', () => undefined).resume();
      resolve(response.statusCode === 200 ? response : undefined);
    })
      .on('error', reject)
      .end();
  });
}

function codeOf(text: string): string {
  try {
    return String((JSON.parse(text) as { code?: unknown }).code);
  } catch {
    return '';
  }
}

/** Processor time of the main thread, in steps of 10 ms. */
async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/task/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
