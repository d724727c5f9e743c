/**
 * Requests that no client would send: bodies, headers, paths, numbers, bytes, fragments. The server must
 * answer and keep working.
 */
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Agent, MessagingServer } from './kit.js';

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'];
const strange = [
  '',
  ' ',
  '%',
  '%00',
  '%ff',
  '%c0%af',
  '..',
  '../..',
  '.',
  '~',
  '%2e%2e%2f',
  '\u0000',
  '\ud800',
  '日本',
  '🎉'.repeat(50),
  '{}',
  '[]',
  'null',
  'undefined',
  'NaN',
  '-1',
  '0',
  '1e309',
  '9'.repeat(400),
  '0x10',
  '١٢٣',
  'true',
  "' OR 1=1 --",
  '${7*7}',
  '{{7*7}}',
  '<script>',
  '__proto__',
  'constructor',
  'toString',
  'a'.repeat(5_000),
  '\r\nX-Injected: 1',
  '\u202e',
  'global',
  'ack',
  'stream',
  'thread',
  randomUUID(),
];
const paths = [
  '/register',
  '/who/{}',
  '/who/{}/key',
  '/who/{}/keys',
  '/channels',
  '/room',
  '/room/{}',
  '/room/{}/{}',
  '/room/{}/{}/thread',
  '/room/{}/stream',
  '/dm',
  '/dm/{}',
  '/dm/ack',
  '/find',
  '/stats',
  '/api',
  '/',
  '/docs',
  '/stream',
  '/health',
  '/{}',
];
const queries = [
  'limit',
  'before',
  'after',
  'offset',
  'cursor',
  'q',
  'room',
  'rooms',
  'wait',
  'verify',
  'pending',
  'last_event_id',
];
const fields = [
  'public_key',
  'name',
  'email',
  'body',
  'pid',
  'is_private',
  'key',
  'ids',
  'proof',
  'BODY',
  '__proto__',
];
const headerNames = [
  'x-aicq-agent',
  'x-aicq-nonce',
  'x-aicq-timestamp',
  'x-aicq-signature',
  'x-aicq-room-key',
  'signature',
  'signature-input',
  'content-digest',
  'last-event-id',
  'x-forwarded-for',
  'content-type',
  'authorization',
  'stoa-user',
];

function pick<T>(list: readonly T[]): T {
  return list[randomInt(list.length)] as T;
}

function strangeValue(depth = 0): unknown {
  switch (randomInt(depth > 3 ? 5 : 8)) {
    case 0:
      return pick(strange);
    case 1:
      return pick([0, -1, 1e308, Number.MAX_SAFE_INTEGER, 0.1]);
    case 2:
      return pick([null, true, false]);
    case 3:
      return randomBytes(randomInt(200)).toString(pick(['base64', 'hex', 'latin1']));
    case 4:
      return 'x'.repeat(randomInt(9_000));
    case 5:
      return Array.from({ length: randomInt(4) }, () => strangeValue(depth + 1));
    default:
      return Object.fromEntries(
        Array.from({ length: randomInt(4) }, () => [
          pick([...fields, ...strange.slice(0, 30)]),
          strangeValue(depth + 1),
        ]),
      );
  }
}

function strangeBody(): Buffer {
  switch (randomInt(6)) {
    case 0:
      return randomBytes(randomInt(2_000));
    case 1:
      return Buffer.from(pick(['{', '[', '"', '{"body":', 'nul', '{}{}', '\ufeff{}', '{"body":"\ud800"}']));
    case 2:
      return Buffer.from('['.repeat(randomInt(30_000)));
    case 3:
      return Buffer.alloc(randomInt(70_000), pick(['x', '{', '\u0000']));
    default:
      return Buffer.from(
        JSON.stringify(
          Object.fromEntries(fields.filter(() => randomInt(2) === 0).map((name) => [name, strangeValue()])),
        ),
      );
  }
}

function strangePath(): string {
  const path = pick(paths).replaceAll('{}', () =>
    encodeURIComponent(Buffer.from(pick(strange)).toString()).slice(0, 3_000),
  );
  const query = queries
    .filter(() => randomInt(4) === 0)
    .map((name) => `${name}=${encodeURIComponent(Buffer.from(pick(strange)).toString()).slice(0, 1_000)}`);
  return query.length === 0 ? path : `${path}?${query.join('&')}`;
}

function strangeHeaders(): Record<string, string> {
  const chosen = headerNames.filter(() => randomInt(5) === 0);
  // What HTTP itself forbids in a header would never reach the server.
  return Object.fromEntries(
    chosen.map((name) => [
      name,
      Buffer.from(pick(strange))
        .toString('latin1')
        .replaceAll(/[^\x20-\x7e\x80-\xff]/g, '')
        .slice(0, 2_000),
    ]),
  );
}

const components = [
  '@method',
  '@target-uri',
  '@authority',
  '@scheme',
  '@path',
  '@query',
  '@request-target',
  '@status',
  '@nothing',
  'content-digest',
  'content-type',
  'host',
  'x-missing',
  '',
];
const times = () =>
  pick([String(Math.floor(Date.now() / 1000)), '0', '-1', '1e3', '9'.repeat(20), '"now"', '']);

/** A description of a signature, from nearly right to nonsense. */
function strangeInput(agent: Agent): string {
  const label = pick(['sig1', 'sig1', 'sig1', 'SIG', '*', 'a.b', '']);
  const covered = components
    .filter((_, index) => (index < 2 ? randomInt(8) > 0 : randomInt(5) === 0))
    .map((name) => `"${name}"${pick(['', '', '', '', ';sf', ';req', ';key="x"'])}`);
  const parameters = [
    `created=${times()}`,
    `nonce="${randomBytes(16).toString('hex')}"`,
    `keyid="${pick([agent.id, agent.id, agent.id, randomUUID(), 'x', '\\"'])}"`,
    `expires=${times()}`,
    'alg="ed25519"',
    'alg="rsa"',
    'tag="x"',
    'tag',
  ];
  const chosen = parameters.filter((_, index) => (index < 3 ? randomInt(8) > 0 : randomInt(5) === 0));
  return Array.from(
    { length: pick([1, 1, 1, 2, 3]) },
    () => `${label}=(${covered.join(' ')})${chosen.map((each) => `;${each}`).join('')}`,
  ).join(pick([', ', ',', ' ', ';']));
}

function strangeSignature(agent: Agent): Record<string, string> {
  const signature = `${pick(['sig1', 'sig1', 'sig2'])}=:${pick([agent.sign('x'), 'AAAA', '', '=', '!'])}:`;
  return {
    'signature-input': strangeInput(agent),
    signature,
    'content-digest': pick(['sha-256=:AAAA:', 'sha-512=::', 'md5=:x:', 'sha-256=', '']),
  };
}

function signatureOf(agent: Agent, body: Buffer | undefined): Record<string, string> {
  switch (randomInt(4)) {
    case 0:
      return {};
    case 1:
      return strangeSignature(agent);
    default:
      return agent.headers(body ?? '');
  }
}

export interface Fuzzed {
  /** 0 where there was no answer. */
  status: number;
  request: string;
}

/** One request, signed or not; answers its status and where it went. */
export async function fuzzOnce(server: MessagingServer, agent: Agent): Promise<Fuzzed> {
  const method = pick(methods);
  const path = strangePath();
  const body = method === 'GET' || method === 'HEAD' ? undefined : strangeBody();
  const headers = {
    'content-type': pick([
      'application/json',
      'application/json; charset=utf-8',
      'text/plain',
      'application/x-www-form-urlencoded',
    ]),
    ...signatureOf(agent, body),
    ...strangeHeaders(),
  };
  const stop = new AbortController();
  const response = await fetch(server.url + path, {
    method,
    headers,
    signal: stop.signal,
    ...(body !== undefined && { body: new Uint8Array(body) }),
  });
  // A stream has no end; its beginning is enough.
  if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) stop.abort();
  else await response.arrayBuffer();
  return {
    status: response.status,
    request: `${method} ${path} ${JSON.stringify(headers)} ${body?.toString('base64').slice(0, 4_000) ?? ''}`,
  };
}

const torn: readonly ((agent: Agent) => string)[] = [
  () =>
    `POST /register HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n${randomInt(2) === 0 ? 'zz' : 'ffffffffff'}\r\n`,
  () =>
    `POST /register HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  () => `POST /register HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n`,
  () => `GET /${'a'.repeat(randomInt(20_000))} HTTP/1.1\r\nHost: x\r\n\r\n`,
  () => `GET / HTTP/1.1\r\n${'X: y\r\n'.repeat(3_000)}\r\n`,
  () => `GET /room/global HTTP/9.9\r\n\r\n`,
  () => `POST /room/global HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n${'x'.repeat(1_000)}`,
  () => randomBytes(500).toString('latin1'),
  (agent) => {
    const headers = Object.entries(strangeSignature(agent)).map(([name, value]) => `${name}: ${value}\r\n`);
    return `GET ${pick(['/dm', '//dm', 'http://x/dm', 'http://[/dm', '*', '/dm#x', '/dm?%'])} HTTP/1.1\r\nHost: ${pick(['[', ']', 'a b', 'x:99999999', '', '%', 'x@y', '::', '\u00e9'])}\r\n${headers.join('')}\r\n`;
  },
];

/** Bytes on a bare connection that the server must survive; the connection is then cut. */
export async function tearOnce(server: MessagingServer, agent: Agent): Promise<Fuzzed> {
  const request = pick(torn)(agent);
  const answer = await server.talk(Buffer.from(request, 'latin1'), 100);
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0), request };
}
