/**
 * No secret is found in plain text anywhere: data files, backups, exports, logs, metrics, feed, answers,
 * errors.
 */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useProgram } from '../cli/program.js';

const secrets = {
  key: 'sk-ant-PLAINTEXT-workspace',
  environment: 'PLAINTEXT-environment',
  any: 'PLAINTEXT-secrets',
  replaced: 'PLAINTEXT-replaced',
  refused: 'PLAINTEXT-refused',
  repeated: 'PLAINTEXT-repeated',
};
const program = useProgram();

it(
  'secrets are in no file, backup, export, log, metric, feed, answer or error',
  { timeout: 120_000 },
  async () => {
    const data = program.path('data');
    const server = await program.up(data, ['--log-level', 'debug']);
    const heard: string[] = [];
    const ask = async (method: string, path: string, init: RequestInit = {}): Promise<string> => {
      const answer = await fetch(server.url + path, {
        ...init,
        method,
        headers: { authorization: `Bearer ${server.token}`, ...init.headers },
      });
      const text = await answer.text();
      heard.push(text, JSON.stringify([...answer.headers]));
      return text;
    };
    const call = async (
      method: string,
      path: string,
      body?: unknown,
      headers: Record<string, string> = {},
    ): Promise<Record<string, unknown>> => {
      const text = await ask(method, path, {
        headers: {
          'stoa-user': 'ada',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
    };
    const followed = new AbortController();
    const following = follow(`${server.url}/v1/changes`, server.token, followed.signal);
    const { id: workspace } = await call('POST', '/v1/workspaces', { name: 'w', claude_key: secrets.key });
    const { id: project } = await call('POST', `/v1/workspaces/${String(workspace)}/projects`, {
      name: 'p',
      config: { environment: { API_TOKEN: secrets.environment }, secrets: { x: secrets.any } },
    });
    await call('PATCH', `/v1/workspaces/${String(workspace)}`, { claude_key: secrets.replaced });
    await call('POST', '/v1/workspaces', { name: 'bad/name', claude_key: secrets.refused });
    await call('POST', '/v1/workspaces', { name: 'w', claude_key: secrets.refused });
    await call('PATCH', `/v1/workspaces/${String(workspace)}`, { claude_key: { nested: secrets.refused } });
    await call('PATCH', `/v1/projects/${String(project)}`, { config: { $sealed: secrets.refused } });
    // Bodies that cannot be read: a message of the parser may quote what stands around the fault.
    await call('PATCH', `/v1/workspaces/${String(workspace)}`, `{"claude_key": "${secrets.refused}" x}`);
    await call('PATCH', `/v1/workspaces/${String(workspace)}`, `{"claude_key": "${secrets.refused}`);
    await call('PATCH', `/v1/workspaces/${String(workspace)}`, `${secrets.refused}`);
    await call('PATCH', `/v1/workspaces/${String(workspace)}`, { unknown_field: secrets.refused });
    // What is kept for a repeat, and what refuses another body under the same key.
    const again = { 'idempotency-key': 'once' };
    await call('POST', '/v1/workspaces', { name: 'again', claude_key: secrets.repeated }, again);
    await call('POST', '/v1/workspaces', { name: 'again', claude_key: secrets.repeated }, again);
    await call('POST', '/v1/workspaces', { name: 'again', claude_key: secrets.refused }, again);
    await call('POST', '/v1/commit', {
      operations: [{ op: 'workspace.create', name: 'c', claude_key: secrets.refused }],
    });
    await call('GET', '/v1/workspaces');
    await call('GET', `/v1/projects/${String(project)}`);
    await call('GET', '/v1/changes?limit=1000');
    await call('POST', '/v1/secrets/rekey');
    for (const path of [
      '/v1/status',
      '/metrics',
      '/openapi.json',
      '/v1/workspaces?name=w',
      '/v1/changes?topics=workspaces',
    ])
      await ask('GET', path);
    const exported = await ask('GET', '/v1/export');
    expect(exported).toContain('workspaces.workspace');
    await ask('POST', '/v1/import?dry_run=true', {
      headers: { 'content-type': 'application/x-ndjson' },
      body: exported,
    });
    const ended = [
      await program.stoa(['backup', program.path('backups'), '--data', data]),
      await program.stoa(['backup', '--incremental', program.path('backups'), '--data', data]),
      await program.stoa(['backup', 'verify', program.path('backups')]),
      await program.stoa(['export', program.path('export.ndjson'), '--data', data]),
      await program.stoa(['workspaces', 'ls', '--user', 'ada', '--data', data]),
      await program.stoa(['inspect', 'workspaces', '--data', data]),
      await program.stoa(['inspect', 'projects', '--json', '--data', data]),
      await program.stoa(['doctor', '--data', data]),
    ];
    for (const { status, stderr } of ended) expect(status, stderr).toBe(0);
    followed.abort();
    heard.push(await following);
    await server.end('SIGTERM');
    ended.push(await program.stoa(['restore', program.path('backups'), '--data', program.path('restored')]));
    expect(ended.at(-1)?.status).toBe(0);
    expect(heard.join('\n')).toContain('********');

    const files = await everyFile(program.directory());
    expect(files.some((file) => file.includes('shard-00'))).toBe(true);
    for (const part of ['backups', 'export.ndjson', 'restored'])
      expect(files.some((file) => file.includes(part))).toBe(true);
    for (const secret of Object.values(secrets)) {
      for (const text of [
        ...heard,
        server.stderr(),
        ...ended.flatMap(({ stdout, stderr }) => [stdout, stderr]),
      ])
        expect(text).not.toContain(secret);
      for (const file of files)
        expect((await readFile(file)).includes(secret), `${secret} in ${file}`).toBe(false);
    }
    // The key itself is in no database and no backup.
    const ring = JSON.parse(await readFile(join(data, 'secret.keys'), 'utf8')) as {
      keys: Record<string, string>;
    };
    for (const file of files.filter((name) => !name.endsWith('secret.keys'))) {
      const content = await readFile(file);
      for (const key of Object.values(ring.keys))
        expect(content.includes(key) || content.includes(Buffer.from(key, 'base64')), file).toBe(false);
    }
  },
);

/** Everything that a stream of the feed sends until it is ended. */
async function follow(url: string, token: string, signal: AbortSignal): Promise<string> {
  let text = '';
  try {
    const { body } = await fetch(url, {
      signal,
      headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' },
    });
    const decoder = new TextDecoder();
    for await (const chunk of body ?? []) text += decoder.decode(chunk, { stream: true });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return text;
}

async function everyFile(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
