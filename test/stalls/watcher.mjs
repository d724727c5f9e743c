/** A thread beside the server: asks /livez all the time, and another route when told; answers the longest wait of /livez. */
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

let watching = true;
let longestMs = 0;
async function watch() {
  while (watching) {
    const startedMs = performance.now();
    await ask({ path: '/livez' });
    longestMs = Math.max(longestMs, performance.now() - startedMs);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

parentPort.on('message', async (message) => {
  if (message === 'stop') {
    watching = false;
    agent.destroy();
    parentPort.close();
    return;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  longestMs = 0;
  const startedMs = performance.now();
  const answers = await Promise.all(message.requests.map(ask));
  await new Promise((resolve) => setTimeout(resolve, 20));
  parentPort.postMessage({ answers, longestMs, tookMs: performance.now() - startedMs });
});
void watch();
