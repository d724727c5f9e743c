/** What Stoa is compared with: installed beside the data sets, because only this bench needs it. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const packages = [
  '@langchain/langgraph-checkpoint-postgres@1.0.5',
  '@langchain/core@^1.1.44',
  '@langchain/langgraph-checkpoint@^1.1.4',
  'pg-boss@10.4.2',
];

export function installPackages(directory: string): string {
  if (existsSync(join(directory, 'node_modules', 'pg-boss'))) return directory;
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'package.json'), '{"private": true}');
  const { status, stderr } = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...packages], {
    cwd: directory,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`npm could not install what to compare with:\n${stderr}`);
  return directory;
}

/** A package that is not installed where this is compiled: the caller states the part that it uses. */
export async function importFrom<Module>(directory: string, name: string): Promise<Module> {
  const path = createRequire(join(directory, 'package.json')).resolve(name);
  return (await import(pathToFileURL(path).href)) as Module;
}
