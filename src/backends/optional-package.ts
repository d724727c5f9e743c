/** Loads a package that only some configurations need. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { StoaError } from '../errors.js';

/**
 * The module of an optional package: from beside Stoa, or from the program that runs it. The type
 * is what the caller relies on; the package itself need not be there when Stoa is compiled.
 */
export async function importOptional<Module>(name: string): Promise<Module> {
  try {
    return (await import(name)) as Module;
  } catch (error) {
    if (!isMissing(error, name)) throw error;
  }
  try {
    const path = createRequire(join(process.cwd(), 'package.json')).resolve(name);
    return (await import(pathToFileURL(path).href)) as Module;
  } catch (error) {
    if (!isMissing(error, name)) throw error;
    throw new StoaError('missing_package', `The package ${name} is not installed.`, {
      fix: `Run: npm install ${name}`,
      details: { package: name },
      cause: error,
    });
  }
}

/** Missing itself, not something that it needs in turn. */
function isMissing(error: unknown, name: string): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') && error instanceof Error && error.message.includes(`'${name}'`);
}
