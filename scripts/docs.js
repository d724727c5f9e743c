/** `npm run docs`: writes the pages that are made from the sources. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.js';
import { install, requireNode, root } from './install.js';

requireNode();
install(root);
await build();
const { settingsPage } = await import('../dist/core/settings/page.js');
writeFileSync(join(root, 'docs', 'configuration.md'), settingsPage());
