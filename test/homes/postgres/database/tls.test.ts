/** Connections with TLS: what they are used for, how they are checked, and how they end. */
import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import { useProgram } from '../../../cli/program.js';
import { type Gate, startGate } from '../../../servers/gate.js';
import { type PostgresServer, start as startPostgres } from '../../../servers/postgres.js';
import { emptyPostgres, noteServer } from '../../../servers/shared.js';
import { until } from '../../../until.js';

/** PostgreSQL runs as this user if the tests run as root, and the key must be its own. */
const nobody = 65_534;

const program = useProgram();

let directory: string;
let certificate: string;
let postgres: PostgresServer;
let gate: Gate;
const pools: PostgresSql[] = [];

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'stoa-tls-'));
  certificate = join(directory, 'server.crt');
  const key = join(directory, 'server.key');
  const request = 'req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=database';
  const files = ['-keyout', key, '-out', certificate];
  const names = ['-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', [...request.split(' '), ...names, ...files], { stdio: 'ignore' });
  if (process.getuid?.() === 0)
    for (const file of [directory, certificate, key]) chownSync(file, nobody, nobody);
  postgres = await startPostgres({
    settings: { ssl: 'on', ssl_cert_file: certificate, ssl_key_file: key },
  });
  await noteServer(postgres.describe);
  gate = await startGate(postgres.url);
});
afterEach(async () => {
  for (const pool of pools.splice(0)) await closePostgres(pool, 0);
});
afterAll(async () => {
  await gate?.close();
  await postgres?.stop();
  rmSync(directory, { recursive: true, force: true });
});

async function open(sslmode: string, connectionsMax = 1): Promise<PostgresSql> {
  const url = new URL(gate.url);
  url.searchParams.set('sslmode', sslmode);
  const pool = await openPostgres(url, { connectionsMax, limits: limitsWith({}) });
  pools.push(pool);
  return pool;
}

it('that are reset fail what was running, and nothing that comes right after it', async () => {
  const sql = await open('require');
  const other = await openPostgres(new URL(postgres.url), { connectionsMax: 1 });
  pools.push(other);
  const encrypted = 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()';
  for (let round = 0; round < 5; round += 1) {
    expect(await query(sql, encrypted)).toEqual([{ ssl: true }]);
    const next: Promise<unknown>[] = [];
    const running = query(sql, 'SELECT pg_sleep(60)').catch((error: unknown) => {
      next.push(
        query(sql, encrypted),
        transaction(sql, (tx) => query(tx, encrypted)),
      );
      throw error;
    });
    await until(
      async () =>
        (await query(other, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).length > round,
    );
    gate.reset();
    await expect(running).rejects.toMatchObject({ code: 'backend_unavailable' });
    expect(await Promise.all(next)).toEqual([[{ ssl: true }], [{ ssl: true }]]);
  }
});

it('whose certificate is not accepted are refused with what to do', async () => {
  await expect(query(await open('verify-full'), 'SELECT 1')).rejects.toMatchObject({
    code: 'invalid_config',
    message: 'TLS to PostgreSQL failed: self-signed certificate.',
  });
});

it('have the address of the URL in their certificate', async () => {
  const url = new URL(postgres.url);
  url.pathname = '/no_such_database';
  url.searchParams.set('sslmode', 'verify-full');
  const ended = await program.stoa(
    ['up', '--postgres', url.href, '--redis', 'redis://127.0.0.1:1', '--json'],
    {
      environment: { NODE_EXTRA_CA_CERTS: certificate, STOA_SECRET_KEYS: 'a'.repeat(64) },
    },
  );
  // The certificate was accepted, and the server has answered.
  expect(ended.error()).toMatchObject({ code: 'invalid_config', fix: expect.stringContaining('createdb') });
});

it('are encrypted also in a pool without limits', async () => {
  const url = new URL(postgres.url);
  url.searchParams.set('sslmode', 'require');
  const sql = await openPostgres(url, { connectionsMax: 1 });
  pools.push(sql);
  const encrypted = 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()';
  expect(await query(sql, encrypted)).toEqual([{ ssl: true }]);
});

it('are not opened with a file of authorities in the URL, which would not be used', async () => {
  const url = new URL(postgres.url);
  url.searchParams.set('sslmode', 'require');
  url.searchParams.set('sslrootcert', certificate);
  const sql = await openPostgres(url, { connectionsMax: 1, limits: limitsWith({}) });
  pools.push(sql);
  await expect(query(sql, 'SELECT 1')).rejects.toThrow('sslrootcert');
});

it('are refused by a server without TLS, unless they are only preferred', async () => {
  const plain = await emptyPostgres();
  const url = (mode: string): URL => new URL(`${plain.url}?sslmode=${mode}`);
  const limits = limitsWith({});
  const [required, preferred] = [
    await openPostgres(url('require'), { limits }),
    await openPostgres(url('prefer'), { limits }),
  ];
  pools.push(required, preferred);
  await expect(query(required, 'SELECT 1')).rejects.toMatchObject({
    code: 'invalid_config',
    message: 'TLS to PostgreSQL failed: the server does not accept TLS.',
  });
  expect(await query(preferred, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});
