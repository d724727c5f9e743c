/** The texts of the OpenAPI document, which anyone may ask for. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { Running } from '../running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

// First in this file: the texts are made once.
test('no turn of the event loop has a quarter of the work that the texts take', async () => {
  collectGarbage();
  const turns = measureTurns();
  const answers = await Promise.all(
    ['/openapi.json', '/docs/openapi.yaml'].map((path) => running.ask('GET', path)),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  const { longestMs, allMs } = turns.end();
  expect(longestMs).toBeLessThan(allMs / 4);
});

test('the document in YAML says the same as the document in JSON', async () => {
  const json = JSON.parse((await running.ask('GET', '/openapi.json')).text) as unknown;
  const yaml = await running.ask('GET', '/docs/openapi.yaml');
  expect(yaml.headers.get('content-type')).toBe('application/yaml; charset=utf-8');
  expect(parse(yaml.text)).toEqual(json);
});

/** The garbage of suites before this one is not collected while the turns are measured. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

/** Processor time of the turns of the event loop, so that other work on the machine does not count. */
function measureTurns(): { end: () => { longestMs: number; allMs: number } } {
  const startedMs = processorMs();
  let [lastMs, longestMs] = [startedMs, 0];
  let next = setImmediate(measure);
  function measure(): void {
    const nowMs = processorMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    next = setImmediate(measure);
  }
  return {
    end: () => {
      clearImmediate(next);
      return { longestMs, allMs: processorMs() - startedMs };
    },
  };
}

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
