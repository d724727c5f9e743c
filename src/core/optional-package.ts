/** Loads a package that only some configurations need. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { StoaError } from './errors.js';

/**
 * The module of an optional package, found beside Stoa or beside the program that runs it. The caller
 * states the type that it relies on; the package need not be installed when Stoa is compiled. `major`
 * is the version that Stoa was tested with: the newest may need a newer Node. If both places have the
 * package, `preferred` decides which copy is loaded.
 */
export async function importOptional<Module>(
  name: string,
  major: number,
  preferred: 'stoa' | 'program' = 'stoa',
): Promise<Module> {
  const places = [import.meta.url, join(process.cwd(), 'package.json')];
  if (preferred === 'program') places.reverse();
  const path = places.map((place) => find(name, place)).find((found) => found !== undefined);
  if (path === undefined) {
    throw new StoaError('missing_package', `The package ${name} is not installed.`, {
      fix: `Run: npm install ${name}@${major}`,
      details: { package: name },
    });
  }
  // Not `import()`, which V8 refuses in stored code (`src/cli/start.ts`).
  return createRequire(import.meta.url)(path) as Module;
}

function find(name: string, from: string): string | undefined {
  try {
    return createRequire(from).resolve(name);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
