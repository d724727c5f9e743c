/**
 * Completes package-lock.json after a package was added: node scripts/complete-lock.js [directory…]
 *
 * npm leaves an optional package out of the lock when the registry at hand does not have it, as
 * partial mirrors do for other platforms' binaries, and `npm ci` then refuses the whole lock.
 * An entry with the version and the platform is enough: npm skips it where it does not fit.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const systems = [
  'aix',
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'win32',
];
const processors = [
  'arm64',
  'arm',
  'ia32',
  'loong64',
  'mips64el',
  'ppc64',
  'riscv64',
  's390x',
  'wasm32',
  'x64',
];

for (const directory of process.argv.length > 2 ? process.argv.slice(2) : ['.', 'test']) {
  const path = join(directory, 'package-lock.json');
  const lock = JSON.parse(readFileSync(path, 'utf8'));
  let added = 0;
  for (const [place, entry] of Object.entries(lock.packages)) {
    for (const [name, wanted] of Object.entries(entry.optionalDependencies ?? {})) {
      if (finds(lock.packages, place, name)) continue;
      lock.packages[`node_modules/${name}`] = {
        version: wanted.replace(/^[^\d]*/, ''),
        optional: true,
        ...platformOf(name),
      };
      added += 1;
    }
  }
  const { '': root, ...others } = lock.packages;
  const sorted = Object.entries(others).toSorted(([a], [b]) => a.localeCompare(b, 'en'));
  lock.packages = { '': root, ...Object.fromEntries(sorted) };
  if (added > 0) writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
  console.log(`${path}: ${added} entries added`);
}

/** npm's own lookup: the nearest node_modules, then outwards. */
function finds(packages, place, name) {
  let base = place;
  for (;;) {
    if (packages[`${base === '' ? '' : `${base}/`}node_modules/${name}`] !== undefined) return true;
    if (base === '') return false;
    const at = base.lastIndexOf('/node_modules/');
    base = at === -1 ? '' : base.slice(0, at);
  }
}

/** Packages of binaries carry their platform in their name. */
function platformOf(name) {
  const words = name.split(/[-/]/).map((word) => ({ windows: 'win32', macos: 'darwin' })[word] ?? word);
  const os = systems.filter((system) => words.includes(system));
  const cpu = processors.filter((processor) =>
    words.some((word) => word === processor || (processor === 'arm' && /^arm(v\d+)?$/.test(word))),
  );
  const libc = words.some((word) => word.startsWith('musl'))
    ? ['musl']
    : words.some((word) => word.startsWith('gnu'))
      ? ['glibc']
      : [];
  return {
    ...(cpu.length > 0 && { cpu }),
    ...(os.length > 0 && { os }),
    ...(os.includes('linux') && libc.length > 0 && { libc }),
  };
}
