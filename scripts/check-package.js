/**
 * Checks the package as npm would ship it: entries resolve and import, types are there, nothing else slips
 * in.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root } from './install.js';

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const complaints = [];
const complain = (sentence) => complaints.push(sentence);

const shipped = packedFiles();
for (const file of shipped) {
  if (
    !/^(assets\/|firestore\.indexes\.json$|llms\.txt$|bundle\/|dist\/|docs\/|package\.json$|README\.md$|CHANGELOG\.md$|LICENSE$)/.test(
      file,
    )
  )
    complain(`${file} would be shipped.`);
  if (/\.test\.|\.tsbuildinfo$|(?<!\.d)\.ts$/.test(file))
    complain(`${file} is a test or a source and would be shipped.`);
}

for (const [name, entry] of Object.entries(manifest.exports)) {
  const targets = typeof entry === 'string' ? { default: entry } : entry;
  for (const [condition, target] of Object.entries(targets)) {
    if (!shipped.has(target.replace(/^\.\//, '')))
      complain(`exports["${name}"].${condition} is ${target}, which is not shipped.`);
  }
  if (typeof entry !== 'string' && entry.types === undefined) complain(`exports["${name}"] has no types.`);
  if (!name.endsWith('.json')) await importEntry(name);
}

for (const [name, target] of Object.entries(manifest.bin)) {
  const path = join(root, target);
  if (!shipped.has(target)) complain(`bin "${name}" is ${target}, which is not shipped.`);
  if (!existsSync(path)) continue;
  if (!readFileSync(path, 'utf8').startsWith('#!/usr/bin/env node\n'))
    complain(`bin "${name}" does not begin with a line for node.`);
  try {
    accessSync(path, constants.X_OK);
  } catch {
    complain(`bin "${name}" is not executable.`);
  }
  const { status, stdout } = spawnSync(process.execPath, [path, '--version'], { encoding: 'utf8' });
  if (status !== 0 || stdout.trim() !== manifest.version)
    complain(`${name} --version printed ${JSON.stringify(stdout)} and ended with ${status}.`);
}

if (complaints.length > 0) fail(complaints.join('\n'));
console.log(
  `The package is complete: ${shipped.size} files, ${Object.keys(manifest.exports).length} exports, ${Object.keys(manifest.bin).length} programs.`,
);

/** Through the package's own name, as a user's import goes. */
async function importEntry(name) {
  try {
    await import(join(manifest.name, name));
  } catch (error) {
    // An entry for users of an optional peer cannot be imported without it.
    const isWithoutPeer = Object.keys(manifest.peerDependenciesMeta).some(
      (peer) => error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`'${peer}'`),
    );
    if (isWithoutPeer) return;
    complain(`import "${join(manifest.name, name)}" fails: ${error.message}`);
  }
}

function packedFiles() {
  const { status, stdout, stderr } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0) fail(`npm pack failed:\n${stderr}`);
  return new Set(JSON.parse(stdout)[0].files.map(({ path }) => path));
}
