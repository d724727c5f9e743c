/**
 * Starts the bundled program. The build stores the code that V8 compiled beside each file of the bundle. V8
 * takes it from there, which saves a third of the time until the first answer. It refuses code of another
 * version or of other flags, and then compiles the file.
 */
import { isAscii } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Script } from 'node:vm';

interface Loaded {
  exports: object;
}

type Wrapped = (
  exports: object,
  require: (name: string) => unknown,
  module: Loaded,
  filename: string,
  dirname: string,
) => void;

const folder = import.meta.dirname;
const outside = createRequire(import.meta.url);
const loaded = new Map<string, Loaded>();
/** The compiled files by their paths, for the build, which stores their code. */
export const scripts = new Map<string, Script>();

void (load('./program.cjs') as { main(): Promise<void> }).main();

/** Files of the bundle name each other with "./"; every other name is a package or a part of Node. */
function load(name: string): unknown {
  if (!name.startsWith('./')) return outside(name);
  const known = loaded.get(name);
  if (known !== undefined) return known.exports;
  const module: Loaded = { exports: {} };
  loaded.set(name, module);
  const script = compiled(name);
  scripts.set(join(folder, name), script);
  const run = script.runInThisContext() as Wrapped;
  run.call(module.exports, module.exports, load, module, join(folder, name), folder);
  return module.exports;
}

/** V8 keeps the name of the file with its code, and the place of the installation is not known to the build. */
function compiled(name: string): Script {
  const path = join(folder, name);
  const bytes = readFileSync(path);
  const text = bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8');
  return new Script(`(function (exports, require, module, __filename, __dirname) {${text}\n})`, {
    filename: `stoa/bundle/${name.slice(2)}`,
    cachedData: storedCode(path),
  });
}

function storedCode(path: string): Buffer | undefined {
  try {
    return readFileSync(`${path}.code`);
  } catch {
    return undefined;
  }
}
