/** `npm start -- [flags]`: from a bare clone to a running server. Flags are those of `stoa up`. */
import { join } from 'node:path';
import { install, requireNode, root, run } from './install.js';

requireNode();
install(root);
// In a separate process: the bundler keeps some 300 MB for as long as its process lives.
run(process.execPath, [join(root, 'scripts', 'build.js')], root, 'Stoa could not be built.');
// The server runs in this very process: signals, stdin and the exit status are its own.
process.argv.splice(2, 0, 'up');
await import('../bundle/main.cjs');
