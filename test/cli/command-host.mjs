/**
 * Runs commands of the built program in this process, one after the other. Each has separate arguments, variables,
 * streams and an exit status, as in a process of its own.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Readable, Writable } from 'node:stream';

const [, , main] = process.argv;
const { runCommand } = createRequire(import.meta.url)(join(dirname(main), 'program.cjs'));

let streams = { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr };
for (const name of ['stdin', 'stdout', 'stderr'])
  Object.defineProperty(process, name, { get: () => streams[name] });

let last = Promise.resolve();
process.on('message', (command) => {
  last = last.then(() => run(command));
});

async function run({ args, environment, cwd, input }) {
  const [stdout, stderr] = [new Kept(), new Kept()];
  streams = { stdin: Readable.from(input === undefined ? [] : [Buffer.from(input)]), stdout, stderr };
  process.argv = [process.execPath, main, ...args];
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name];
  Object.assign(process.env, environment);
  process.chdir(cwd);
  process.exitCode = undefined;
  await runCommand();
  process.send({ status: process.exitCode ?? 0, stdout: stdout.text(), stderr: stderr.text() });
  process.exitCode = undefined;
}

class Kept extends Writable {
  #chunks = [];

  _write(chunk, _encoding, done) {
    this.#chunks.push(chunk);
    done();
  }

  text() {
    return Buffer.concat(this.#chunks).toString();
  }
}
