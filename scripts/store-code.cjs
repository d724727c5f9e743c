/**
 * `node store-code.cjs <program> <command>`: runs the command, a server until it is up, and stores the code of the files
 * that it loaded beside them. A second run adds to what the first one stored.
 */
const { writeFileSync } = require('node:fs');

process.argv.splice(1, 1);
const { scripts } = require(process.argv[1]);
const store = () => {
  for (const [path, script] of scripts) writeFileSync(`${path}.code`, script.createCachedData());
};

if (process.argv[2] === 'up')
  // The first line of a server says that it is up. After it, the server changes settings of V8.
  process.stdout.write = () => {
    store();
    process.exit();
  };
else process.once('exit', store);
