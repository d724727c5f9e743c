/**
 * `node scripts/tool.js bench/run [arguments]`: compiles the tools with the sources they use and runs one of
 * them.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fail, install, requireNode, root, run } from './install.js';

const [tool, ...given] = process.argv.slice(2);
if (tool === undefined) fail('Name the tool to run.', 'For instance: node scripts/tool.js bench/run');

requireNode();
install(root);
run(
  process.execPath,
  [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.tools.json'],
  root,
  'The tools do not compile.',
);
// The sources read their version from the file above them.
copyFileSync(join(root, 'package.json'), join(root, '.compiled', 'tools', 'package.json'));
const flags = (process.env.STOA_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '');
const { status } = spawnSync(
  process.execPath,
  [...flags, join(root, '.compiled', 'tools', `${tool}.js`), ...given],
  { cwd: root, stdio: 'inherit' },
);
process.exitCode = status ?? 1;
