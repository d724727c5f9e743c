/** `npm start -- [flags]`: from a bare clone to a running server. Flags are those of `stoa up`. */
import { build } from './build.js';
import { install, requireNode, root } from './install.js';

requireNode();
install(root);
await build();
// The server runs in this very process: signals, stdin and the exit status are its own.
process.argv.splice(2, 0, 'up');
await import('../bundle/main.js');
