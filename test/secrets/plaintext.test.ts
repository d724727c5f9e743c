/** No secret is found in plain text anywhere: data files, backups, logs, feed, answers, errors. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useProgram } from '../cli/program.js';

const secrets = { key: 'sk-ant-PLAINTEXT-workspace', environment: 'PLAINTEXT-environment', any: 'PLAINTEXT-secrets', replaced: 'PLAINTEXT-replaced', refused: 'PLAINTEXT-refused' };
const program = useProgram();

it('secrets are in no file, log, feed, answer or error', { timeout: 120_000 }, async () => {
  const data = program.path('data');
  const server = await program.up(data, ['--log-level', 'debug']);
  const heard: string[] = [];
  const call = async (method: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
    const headers = { authorization: `Bearer ${server.token}`, 'stoa-user': 'ada', ...(body !== undefined && { 'content-type': 'application/json' }) };
    const answer = await fetch(server.url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    const text = await answer.text();
    heard.push(text);
    return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  };
  const { id: workspace } = await call('POST', '/v1/workspaces', { name: 'w', claude_key: secrets.key });
  const { id: project } = await call('POST', `/v1/workspaces/${String(workspace)}/projects`, { name: 'p', config: { environment: { API_TOKEN: secrets.environment }, secrets: { x: secrets.any } } });
  await call('PATCH', `/v1/workspaces/${String(workspace)}`, { claude_key: secrets.replaced });
  await call('POST', '/v1/workspaces', { name: 'bad/name', claude_key: secrets.refused });
  await call('POST', '/v1/workspaces', { name: 'w', claude_key: secrets.refused });
  await call('PATCH', `/v1/workspaces/${String(workspace)}`, { claude_key: { nested: secrets.refused } });
  await call('PATCH', `/v1/projects/${String(project)}`, { config: { $sealed: secrets.refused } });
  await call('GET', '/v1/workspaces');
  await call('GET', `/v1/projects/${String(project)}`);
  await call('GET', '/v1/changes?limit=1000');
  await call('POST', '/v1/secrets/rekey');
  const backup = await program.stoa(['backup', program.path('backups'), '--data', data]);
  expect(backup.status).toBe(0);
  await server.end('SIGTERM');
  expect(heard.join('\n')).toContain('********');

  const files = await everyFile(program.directory());
  expect(files.some((file) => file.includes('shard-00'))).toBe(true);
  expect(files.some((file) => file.includes('backups'))).toBe(true);
  for (const secret of Object.values(secrets)) {
    for (const text of [...heard, server.stderr(), backup.stdout, backup.stderr]) expect(text).not.toContain(secret);
    for (const file of files) expect((await readFile(file)).includes(secret), `${secret} in ${file}`).toBe(false);
  }
  // The key itself is in no database and no backup.
  const ring = JSON.parse(await readFile(join(data, 'secret.keys'), 'utf8')) as { keys: Record<string, string> };
  for (const file of files.filter((name) => !name.endsWith('secret.keys'))) {
    const content = await readFile(file);
    for (const key of Object.values(ring.keys)) expect(content.includes(key) || content.includes(Buffer.from(key, 'base64')), file).toBe(false);
  }
});

async function everyFile(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
