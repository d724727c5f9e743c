/** Compiles src to dist, only when a source has changed since the last time. */
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { install, requireNode, root, run, say } from './install.js';

const dist = join(root, 'dist');
const stampPath = join(dist, '.sources');

export function build() {
  const sources = hashSources();
  if (existsSync(stampPath) && readFileSync(stampPath, 'utf8') === sources) return;
  say('Compiling …');
  // Into a place of its own first: a failed or interrupted compile leaves the old one usable.
  const next = join(root, `dist.${process.pid}`);
  const cleanUp = () => rmSync(next, { recursive: true, force: true });
  run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '--outDir', next], root, 'The sources do not compile.', cleanUp);
  const main = join(next, 'cli', 'main.js');
  if (existsSync(main)) chmodSync(main, 0o755);
  writeFileSync(join(next, '.sources'), sources);
  rmSync(dist, { recursive: true, force: true });
  renameSync(next, dist);
}

/** One hash over every path and content that the output depends on. */
function hashSources() {
  const hash = createHash('sha256');
  const files = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .toSorted();
  for (const file of [...files, join(root, 'tsconfig.json'), join(root, 'package-lock.json')]) {
    hash.update(file.slice(root.length)).update('\0').update(readFileSync(file)).update('\0');
  }
  return hash.digest('hex');
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  requireNode();
  install(root);
  build();
}
