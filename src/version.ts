/** The directory of the package, and its version. */
import { readFileSync } from 'node:fs';

/**
 * The package's own directory. It is one folder above `src`, `dist` and `bundle`, so the sources, the library
 * and the bundled program all find files relative to it.
 */
export const packageRoot = new URL('../', import.meta.url);

export const version: string = (
  JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')) as { version: string }
).version;
