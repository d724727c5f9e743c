/** `stoa console`: makes a one-time sign-in link and opens it in a browser. */
import { spawn } from 'node:child_process';
import { StoaError } from '../../../core/errors.js';
import type { Connection } from '../../connection/connection.js';
import type { Action } from '../../definitions/definition.js';

export const console: Action = async ({ connect, output }, _args, options) => {
  const connection = await connect();
  const base = await serverUrl(connection);
  const { path, expires_at } = await connection.call('console.createLink', {});
  const url = base.replace(/\/+$/, '') + path;
  const minutes = Math.max(1, Math.round((Date.parse(expires_at) - Date.now()) / 60_000));
  if (output.json) return output.value({ url, expires_at });
  output.line({}, url);
  output.say(`The link works once, within ${minutes} minutes.`);
  if (options['print'] !== true && process.stdout.isTTY) open(url);
};

/** The console needs a running server. Commands without one answer in this process, which ends at once. */
async function serverUrl(connection: Connection): Promise<string> {
  if (connection.stoa === undefined) return connection.where;
  const servers = await connection.stoa.home.operations.servers();
  const url = servers.find((server) => server.url !== null)?.url;
  if (typeof url === 'string') return url;
  throw new StoaError('unreachable', 'The console needs a running server, and none runs here.', {
    fix: 'Start one with "stoa up", or name one with --url and --token.',
  });
}

/** Opens the link as the desktop does. The link was printed, so a desktop without a browser loses nothing. */
function open(url: string): void {
  const [command, ...args] =
    process.platform === 'darwin'
      ? ['open', url]
      : process.platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler', url]
        : ['xdg-open', url];
  const opener = spawn(command as string, args, { stdio: 'ignore', detached: true });
  opener.once('error', () => undefined);
  opener.unref();
}
