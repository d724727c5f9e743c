/** Where the package lies and which version it is. */
import { readFileSync } from 'node:fs';

/**
 * The package's own directory. It lies one folder above `src`, `dist` and `bundle` alike, so a file
 * that is found from here is found by the sources, the library and the bundled program.
 */
export const packageRoot = new URL('../', import.meta.url);

export const version: string = (
  JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8')) as { version: string }
).version;
