/**
 * A real PostgreSQL 17 with the extension pgvector: Debian's packages, unpacked into a folder and started with their
 * own C library. So the system's PostgreSQL, if there is one, stays as it is.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type PostgresServer, startProgram } from './postgres.js';

const run = promisify(execFile);

const suite = 'trixie';
/** The server, the extension, and the libraries that both need. Compiled queries (LLVM) are left out. */
const packages =
  `postgresql-17 postgresql-17-pgvector libc6 libgcc-s1 libstdc++6 zlib1g libcrypt1 libicu76 libssl3t64 libzstd1
  liblz4-1 libxml2 libxslt1.1 liblzma5 libpam0g libaudit1 libcap-ng0 libselinux1 libpcre2-8-0 libgssapi-krb5-2
  libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libldap2 libsasl2-2 libpq5 libsystemd0 libcap2
  libgcrypt20 libgpg-error0 libuuid1`.split(/\s+/);

const folder = join(dirname(dirname(fileURLToPath(import.meta.url))), 'node_modules', '.pgvector');

export async function start(): Promise<PostgresServer> {
  const root = join(folder, 'root');
  // Renamed to this name when it is complete.
  if (!(await isThere(root))) await unpack(root);
  return startProgram(join(root, 'usr', 'lib', 'postgresql', '17', 'bin'), {});
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return false;
    },
  );
}

async function unpack(root: string): Promise<void> {
  const draft = join(folder, `draft-${process.pid}`);
  const lists = join(draft, 'apt');
  const debs = join(draft, 'debs');
  const unpacked = join(draft, 'root');
  for (const path of [join(lists, 'lists', 'partial'), join(lists, 'etc'), debs, unpacked])
    await mkdir(path, { recursive: true });
  // Its own lists: nothing of the system's apt is changed, and apt verifies Debian's signatures.
  await writeFile(
    join(lists, 'sources.list'),
    `deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian ${suite} main\n`,
  );
  await writeFile(join(lists, 'status'), '');
  const settings = join(lists, 'apt.conf');
  await writeFile(
    settings,
    Object.entries({
      'Dir::State': lists,
      'Dir::State::status': join(lists, 'status'),
      'Dir::Cache': join(lists, 'cache'),
      'Dir::Etc': join(lists, 'etc'),
      'Dir::Etc::sourcelist': join(lists, 'sources.list'),
      'Dir::Etc::sourceparts': '/dev/null',
      'Acquire::Languages': 'none',
      'APT::Sandbox::User': '',
    })
      .map(([name, value]) => `${name} "${value}";\n`)
      .join(''),
  );
  await mkdir(join(lists, 'cache', 'archives', 'partial'), { recursive: true });
  const options = { cwd: debs, env: { ...process.env, APT_CONFIG: settings } };
  await run('apt-get', ['update', '-qq'], options);
  await run('apt-get', ['download', '-qq', ...packages], options);
  for (const deb of await readdir(debs)) await run('dpkg-deb', ['-x', join(debs, deb), unpacked]);
  await wrapPrograms(unpacked);
  await rename(unpacked, root);
  await rm(draft, { recursive: true });
}

/** initdb starts the server by its path, so both programs become scripts that use the unpacked libraries. */
async function wrapPrograms(unpacked: string): Promise<void> {
  const bin = join(unpacked, 'usr', 'lib', 'postgresql', '17', 'bin');
  const libraries = '$here/../../../x86_64-linux-gnu';
  for (const program of ['postgres', 'initdb']) {
    const path = join(bin, program);
    await rename(path, `${path}.elf`);
    await writeFile(
      path,
      `#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
exec "${libraries}/ld-linux-x86-64.so.2" --argv0 "$here/${program}" --library-path "${libraries}" "$here/${program}.elf" "$@"
`,
    );
    await chmod(path, 0o755);
  }
}
