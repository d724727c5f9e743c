/** The name of the project that agents work on: from the git remote, or from the directory. */
import { execFile } from 'node:child_process';
import { basename, resolve } from 'node:path';
import { promisify } from 'node:util';

/** `acme/shop` for git@github.com:acme/shop.git; the name of the directory without a remote. */
export async function scopeOf(directory: string): Promise<string> {
  const remote = await git(directory, ['config', '--get', 'remote.origin.url']);
  const named = remote === undefined ? undefined : scopeOfRemote(remote);
  if (named !== undefined) return named;
  const root = await git(directory, ['rev-parse', '--show-toplevel']);
  return cleaned(basename(resolve(root ?? directory))) ?? 'project';
}

/** The last two parts of the path of a URL, without `.git`; never the credentials in it. */
export function scopeOfRemote(remote: string): string | undefined {
  const path = remote
    .trim()
    .replace(/^[a-z+]+:\/\/[^/]*\//i, '')
    .replace(/^[^/:]*@?[^/:]*:/, '')
    .replace(/\.git\/?$/, '')
    .replaceAll('\\', '/');
  const parts = path.split('/').flatMap((part) => cleaned(part) ?? []);
  return parts.length === 0 ? undefined : parts.slice(-2).join('/');
}

function cleaned(part: string): string | undefined {
  const clean = part.replaceAll(/[^\w.-]+/g, '-').replaceAll(/^[-.]+|-+$/g, '');
  return clean === '' ? undefined : clean;
}

/** Undefined without git, outside of a repository, and for a setting that is missing. */
async function git(directory: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('git', ['-C', directory, ...args], { timeout: 5_000 });
    return stdout.trim() === '' ? undefined : stdout.trim();
  } catch {
    return undefined;
  }
}
