/**
 * The public conformance suite of the protocol against /mcp, with the scenarios that need fixtures listed and
 * explained.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fullScopes } from '../../src/core/caller.js';
import type { Authenticator } from '../../src/server/request/authentication.js';
import { repository } from '../compiled.js';
import { Running } from '../server/running.js';

/** The suite sends no credentials: such callers are a separate user here. */
const everybody: Authenticator = {
  name: 'everybody',
  needs: 'headers',
  claims: () => true,
  authenticate: () => ({
    kind: 'user',
    user: 'conformance',
    agent: 'suite',
    identity: null,
    agentId: null,
    scopes: fullScopes,
    tokenId: null,
  }),
};

const suite = join(
  repository,
  'test',
  'node_modules',
  '@modelcontextprotocol',
  'conformance',
  'dist',
  'index.js',
);
const folder = join(repository, 'test', 'mcp', 'conformance');
let running: Running;
let results: string;
beforeAll(async () => {
  running = await Running.start({}, { authenticators: [everybody] });
  results = await mkdtemp(join(tmpdir(), 'stoa-conformance-'));
});
afterAll(async () => {
  await running.stop();
  await rm(results, { recursive: true, force: true });
});

test.each(['2025-06-18', '2025-11-25', '2026-07-28'])(
  'the server scenarios of %s pass, apart from those that need fixtures',
  { timeout: 300_000 },
  async (revision) => {
    const expected = join(folder, `expected-failures-${revision}.yml`);
    const { status, output } = await run([
      'server',
      '--url',
      `${running.url}/mcp`,
      '--suite',
      'all',
      '--spec-version',
      revision,
      '--expected-failures',
      expected,
      '-o',
      join(results, revision),
    ]);
    expect(status, `${output}\n${readFileSync(expected, 'utf8')}`).toBe(0);
  },
);

function run(args: readonly string[]): Promise<{ status: number; output: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--import', join(folder, 'node20.mjs'), suite, ...args],
      { cwd: results, maxBuffer: 100_000_000 },
      (error, stdout, stderr) => {
        resolve({
          status: error === null ? 0 : Number(error.code ?? 1),
          output: (stdout + stderr).slice(-6_000),
        });
      },
    );
  });
}
