/** The version of this program, as its package names it. */
import { readFileSync } from 'node:fs';

// The file lies one folder above both src and dist.
const packageFile = new URL('../package.json', import.meta.url);

export const version: string = (JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }).version;
