/** A thread beside the server: asks /livez all the time, and another route when told; answers the longest wait of /livez. */
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';

const { url } = workerData;
const agent = new Agent({ keepAlive: true });

function ask({ method = 'GET', path, headers = {}, body }) {
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { method, headers, agent }, (response) => {
      let sizeBytes = 0;
      response.on('data', (chunk) => (sizeBytes += chunk.length));
      response.on('end', () => resolve({ status: response.statusCode, sizeBytes }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Processor time of the server's thread, in steps of 10 ms: while the machine runs something else, the server holds nobody up. */
function workedMs() {
  const stat = readFileSync(`/proc/${process.pid}/task/${process.pid}/stat`, 'utf8');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) * 10;
}

const state = { isWatching: true };
let longestMs = 0;
async function watch() {
  while (state.isWatching) {
    const [startedMs, workedBeforeMs] = [performance.now(), workedMs()];
    await ask({ path: '/livez' });
    longestMs = Math.max(longestMs, Math.min(performance.now() - startedMs, workedMs() - workedBeforeMs));
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

parentPort.on('message', async (message) => {
  if (message === 'stop') {
    state.isWatching = false;
    await watched;
    agent.destroy();
    parentPort.close();
    return;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  longestMs = 0;
  const startedMs = performance.now();
  const answers = await Promise.all(message.requests.map(ask));
  await new Promise((resolve) => setTimeout(resolve, 20));
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort.postMessage({ answers, longestMs, tookMs: performance.now() - startedMs });
});
const watched = watch();
