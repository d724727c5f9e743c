/**
 * `node bench/http-agents.js`: GET /v1/agents/{id} of a built Stoa against a bare Fastify route that answers the
 * same bytes. Each server has a process of its own; this one sends the load; rounds alternate, so that both see the
 * same machine.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const connections = 32;
const roundMs = 1_500;
const rounds = 7;

if (process.argv[2] === '--serve') await serve(process.argv[3], JSON.parse(process.argv[4]));
else await compare();

async function serve(kind, options) {
  const { path, token, body, url } = kind === 'stoa' ? await serveStoa(options) : await serveBare(kind, options);
  process.send({ url, path, token, body });
  // Processor time is what a busy machine does not distort.
  process.on('message', () => process.send(process.cpuUsage()));
}

async function serveStoa({ data }) {
  const { openStoa } = await import('../dist/index.js');
  const { createApp } = await import('../dist/server/app.js');
  const { operatorCaller } = await import('../dist/identity/caller.js');
  const stoa = await openStoa({ data });
  const agent = await stoa.registry.createAgent(operatorCaller('alice'), { name: 'bench', labels: { team: 'a' } });
  const { token } = await stoa.identity.createToken(operatorCaller(), 'alice', {}, null);
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  const path = `/v1/agents/${agent.agent_id}`;
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
  return { url, path, token, body: await response.text() };
}

/** `object` lets Fastify make the JSON at each request, `text` sends it ready-made. */
async function serveBare(kind, { path, body }) {
  const { default: fastify } = await import('fastify');
  const app = fastify();
  const object = JSON.parse(body);
  app.get(path.replace(/[^/]+$/, ':id'), kind === 'object' ? () => object : (_request, reply) => reply.header('content-type', 'application/json; charset=utf-8').send(body));
  return { url: await app.listen({ port: 0, host: '127.0.0.1' }), path, token: 'none', body };
}

async function compare() {
  const data = mkdtempSync(join(tmpdir(), 'stoa-bench-'));
  const children = [];
  try {
    const stoa = await start('stoa', { data }, children);
    const object = await start('object', stoa, children);
    const text = await start('text', stoa, children);
    for (const server of [stoa, object, text]) await load(server, roundMs);
    const results = [];
    for (let round = 0; round < rounds; round += 1) {
      results.push({ object: await load(object, roundMs), stoa: await load(stoa, roundMs), text: await load(text, roundMs) });
    }
    const of = (name, unit) => Number(median(results.map((result) => result[name][unit])).toFixed(1));
    const ratio = (name, unit) => median(results.map((result) => result.stoa[unit] / result[name][unit])).toFixed(3);
    console.log(JSON.stringify({
      requests_per_second: { stoa: of('stoa', 'perSecond'), bare_object: of('object', 'perSecond'), bare_text: of('text', 'perSecond') },
      server_cpu_us_per_request: { stoa: of('stoa', 'cpuUs'), bare_object: of('object', 'cpuUs'), bare_text: of('text', 'cpuUs') },
      ratio_to_bare_object: { by_wall: ratio('object', 'perSecond'), by_cpu: (1 / ratio('object', 'cpuUs')).toFixed(3) },
      ratio_to_bare_text: { by_wall: ratio('text', 'perSecond'), by_cpu: (1 / ratio('text', 'cpuUs')).toFixed(3) },
      body_bytes: Buffer.byteLength(stoa.body),
    }, null, 2));
  } finally {
    for (const child of children) child.kill();
    rmSync(data, { recursive: true, force: true });
  }
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

function start(kind, options, children) {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), ['--serve', kind, JSON.stringify(options)]);
    children.push(child);
    child.once('message', (message) => resolve({ ...message, cpuUs: () => askCpu(child) }));
    child.once('exit', () => reject(new Error(`The server "${kind}" ended.`)));
  });
}

function askCpu(child) {
  return new Promise((resolve) => {
    child.once('message', ({ user, system }) => resolve(user + system));
    child.send('cpu');
  });
}

/** Requests a second and processor time a request, over keep-alive connections, each with one request under way. */
async function load({ url, path, token, body, cpuUs }, forMs) {
  const { port, host } = new URL(url);
  const request = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const state = { answered: 0, running: true };
  const startedCpuUs = await cpuUs();
  const startedMs = performance.now();
  const ends = Array.from({ length: connections }, () => ask(Number(port), request, body, state));
  await new Promise((resolve) => setTimeout(resolve, forMs));
  state.running = false;
  await Promise.all(ends);
  const perSecond = (state.answered / (performance.now() - startedMs)) * 1_000;
  return { perSecond, cpuUs: ((await cpuUs()) - startedCpuUs) / state.answered };
}

function ask(port, request, body, state) {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: '127.0.0.1' });
    let received = '';
    socket.setEncoding('latin1').setNoDelay();
    socket.on('connect', () => socket.write(request));
    socket.on('error', reject);
    socket.on('data', (chunk) => {
      received += chunk;
      if (!received.endsWith('}')) return;
      if (!received.startsWith('HTTP/1.1 200') || !received.endsWith(body)) return reject(new Error(`Not the expected answer: ${received.slice(0, 300)}`));
      received = '';
      state.answered += 1;
      if (state.running) socket.write(request);
      else socket.end(resolve);
    });
  });
}
