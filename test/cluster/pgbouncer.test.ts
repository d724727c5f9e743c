/** Servers that reach PostgreSQL through PgBouncer. Debian and Ubuntu: apt-get install pgbouncer. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { openStoa, operatorCaller } from '../../src/index.js';
import { Running } from '../server/running.js';
import { Child, freePort } from '../servers/child.js';
import { noteServer, sharedHome } from '../servers/shared.js';
import { withDatabase } from '../servers/postgres.js';
import { eventually } from '../until.js';

const ignored = 'default_transaction_isolation,statement_timeout,idle_in_transaction_session_timeout';
const closings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close();
});

/** The options of a server behind a PgBouncer. */
async function behind(mode: 'session' | 'transaction', lines: readonly string[]) {
  const { options } = await sharedHome();
  const direct = new URL(options.postgres);
  const directory = await mkdtemp(join(tmpdir(), 'stoa-pgbouncer-'));
  closings.push(() => rm(directory, { recursive: true, force: true }));
  const [port, file] = [await freePort(), join(directory, 'pgbouncer.ini')];
  await writeFile(
    file,
    [
      '[databases]',
      `* = host=127.0.0.1 port=${direct.port} user=stoa`,
      '[pgbouncer]',
      `listen_addr = 127.0.0.1`,
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      // Two servers need more connections than the default of 20.
      'default_pool_size = 50',
      `pool_mode = ${mode}`,
      ...lines,
    ].join('\n'),
  );
  // As root it starts only as another user.
  await chmod(directory, 0o755);
  const child = new Child('pgbouncer', 'pgbouncer', [
    ...(process.getuid?.() === 0 ? ['-u', 'nobody'] : []),
    file,
  ]);
  closings.push(() => child.stop('SIGINT'));
  await child.until(async () => child.output.includes('process up'));
  await noteServer(`${/PgBouncer [\d.]+/.exec(child.output)?.[0]} (real)`);
  const through = new URL(options.postgres);
  through.port = String(port);
  return { ...options, direct: options.postgres, postgres: through.href, onError: () => undefined };
}

it('with session pooling, a write and a revocation through one server count at the other', async () => {
  const options = await behind('session', [`ignore_startup_parameters = ${ignored}`]);
  const [a, b] = [await Running.start(options), await Running.start(options)];
  closings.push(
    () => a.stop(),
    () => b.stop(),
  );
  const body = { value: 1 };
  expect((await a.ask('PUT', '/v1/data/n/k', { as: b.alice, body })).status).toBe(201);
  expect((await b.ask('GET', '/v1/data/n/k', { as: b.alice })).json).toMatchObject(body);
  await a.stoa.identity.revokeTokens(operatorCaller(), 'alice', undefined);
  await eventually(async () =>
    expect((await b.ask('GET', '/v1/data/n/k', { as: b.alice })).status).toBe(401),
  );
});

it('with transaction pooling, a start is refused with the setting to change', async () => {
  const options = await behind('transaction', [`ignore_startup_parameters = ${ignored}`]);
  await expect(openStoa(options)).rejects.toMatchObject({
    code: 'unsupported',
    fix: expect.stringContaining('pool_mode = session'),
  });
});

it('a PgBouncer that refuses the settings of the connection is refused with the setting to change', async () => {
  await expect(openStoa(await behind('session', []))).rejects.toMatchObject({
    code: 'invalid_config',
    fix: expect.stringContaining('ignore_startup_parameters'),
  });
});

it('a database whose transactions are of another kind behind a PgBouncer is refused', async () => {
  const { direct, ...options } = await behind('session', [`ignore_startup_parameters = ${ignored}`]);
  const name = new URL(direct).pathname.slice(1);
  await withDatabase(direct, (sql) =>
    sql.unsafe(`ALTER DATABASE "${name}" SET default_transaction_isolation = 'serializable'`),
  );
  await expect(openStoa(options)).rejects.toMatchObject({
    code: 'invalid_config',
    fix: expect.stringContaining('default_transaction_isolation'),
  });
});
