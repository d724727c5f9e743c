#!/usr/bin/env node
/**
 * The command `stoa`. The build writes the program that it loads. npx links this file once and for all, so it exists
 * before the first build too.
 */
'use strict';

const { existsSync } = require('node:fs');
const { dirname, join } = require('node:path');

const root = dirname(__dirname);
const program = join(root, 'bundle', 'main.cjs');

if (existsSync(program)) require(program);
else {
  process.stderr.write(
    `Stoa is not built: ${program} is missing.\nRun "npm start" (builds and serves) or "npm run build" in ${root}.\n`,
  );
  process.exitCode = 1;
}
