/** What Stoa is compared with: installed beside the data sets of the bench that needs it. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Does nothing if exactly these packages are there. Answers the directory. */
export function installPackages(directory: string, packages: readonly string[]): string {
  const mark = join(directory, 'installed');
  const wanted = packages.join('\n');
  if (textOf(mark) === wanted) return directory;
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'package.json'), '{"private": true}');
  // The newest releases of some packages ask for peers that cannot be had, so the caller names all of them.
  const given = ['install', '--no-audit', '--no-fund', '--legacy-peer-deps', ...packages];
  const { status, stderr } = spawnSync('npm', given, { cwd: directory, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm could not install what to compare with:\n${stderr}`);
  writeFileSync(mark, wanted);
  return directory;
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // Nothing is installed yet.
  }
}

/** A package that is not installed where this is compiled: the caller states the part that it uses. */
export async function importFrom<Module>(directory: string, name: string): Promise<Module> {
  const path = createRequire(join(directory, 'package.json')).resolve(name);
  return (await import(pathToFileURL(path).href)) as Module;
}
