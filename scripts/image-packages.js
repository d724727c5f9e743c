/** In the image, before `npm prune --omit=dev`: makes the optional packages that a server uses ordinary ones. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './install.js';

const path = join(root, 'package.json');
const manifest = JSON.parse(readFileSync(path, 'utf8'));
for (const name of ['@nxtedition/rocksdb', 'ioredis', 'postgres', 'sodium-native']) {
  manifest.dependencies[name] = manifest.peerDependencies[name];
  for (const kind of ['devDependencies', 'peerDependencies', 'peerDependenciesMeta'])
    delete manifest[kind][name];
}
writeFileSync(path, `${JSON.stringify(manifest, null, 2)}\n`);
