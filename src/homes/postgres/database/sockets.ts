/** Sockets of connections to PostgreSQL, with TLS if the URL asks for it. */
import { Socket, isIP } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { StoaError, messageOf } from '../../../core/errors.js';
import { codeOf, unavailableCodes } from './errors.js';

/** The server of a connection, and how to reach it. */
export interface SocketTarget {
  readonly host: string;
  readonly port: number;
  /** The path of a Unix socket. */
  readonly path: string | false;
  readonly tls: TlsMode | false;
  /** How long the negotiation of TLS may take. */
  readonly connectSecondsMax: number;
}

/** Called with each socket, and with the one below it, which it replaces. */
type OnSocket = (socket: Socket, below?: Socket) => void;

/** `sslmode` of the URL: the driver's words. All but these three check the certificate. */
export type TlsMode = 'require' | 'allow' | 'prefer' | (string & {});
const unchecked: ReadonlySet<TlsMode> = new Set(['require', 'allow', 'prefer']);

/** The TLS mode of a URL, which is removed from it: the driver would negotiate TLS itself (`openSocket`). */
export function takeTlsMode(url: URL): TlsMode | false {
  const { searchParams } = url;
  // The server refuses a file here, as a setting that it does not know.
  const fromRoots = searchParams.get('sslrootcert') === 'system' ? 'verify-full' : null;
  if (fromRoots !== null) searchParams.delete('sslrootcert');
  const mode =
    fromRoots ?? searchParams.get('sslmode') ?? searchParams.get('ssl') ?? process.env['PGSSL'] ?? '';
  for (const name of ['sslmode', 'ssl']) searchParams.delete(name);
  return /^(|disable|false)$/.test(mode) ? false : mode;
}

/**
 * Connects. The socket is returned at once, or after the negotiation of TLS. The driver's own negotiation would
 * report errors of a connection as described at `endsOnce`.
 */
export function openSocket(target: SocketTarget, onSocket: OnSocket): Socket | Promise<Socket> {
  const { host, port, path, tls } = target;
  const socket = endsOnce(new Socket());
  // Otherwise a statement that follows another one waits until the system acknowledges the first: up to 40 ms.
  socket.setNoDelay(true);
  onSocket(socket);
  if (path === false) socket.connect(port, host);
  else socket.connect(path);
  return tls === false || path !== false ? socket : secured(socket, target, tls, onSocket);
}

/**
 * Between the error of a socket and its end, the driver would give the connection to the next statement. It
 * never ends that statement, and waits for its answer on the next connection. So an open connection only
 * ends, without an error, and one that could not be opened fails at the moment when it ends.
 */
function endsOnce<Kind extends Socket>(socket: Kind): Kind {
  const emit = socket.emit.bind(socket) as (event: string | symbol, ...values: unknown[]) => boolean;
  socket.emit = (event: string | symbol, ...values: unknown[]) => {
    if (event === 'error') return true;
    if (event !== 'close') return emit(event, ...values);
    const { errored, bytesRead } = socket;
    const isFailure = errored !== null && bytesRead === 0;
    if (isFailure) emit('error', errored);
    return emit('close', isFailure);
  };
  return socket;
}

/** What a client sends first to use TLS. The server answers with S or N. */
const tlsRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

async function secured(
  socket: Socket,
  { host, connectSecondsMax }: SocketTarget,
  mode: TlsMode,
  onSocket: OnSocket,
): Promise<Socket> {
  const timer = setTimeout(() => {
    socket.destroy(
      Object.assign(new Error(`no answer within ${connectSecondsMax} s`), { code: 'ETIMEDOUT' }),
    );
  }, connectSecondsMax * 1_000);
  try {
    socket.write(tlsRequest);
    const [bytes] = (await firstOf(socket, 'data')) as [Buffer];
    const answer = bytes.toString('latin1');
    // More bytes than the answer would come from somebody in between: nothing else may be sent without TLS.
    if (answer !== 'S') {
      if (answer !== 'N') throw closedEarly();
      if (mode === 'prefer') return socket;
      throw new Error('the server does not accept TLS');
    }
    const options: ConnectionOptions = {
      socket,
      // The certificate must be that of this host: a name, which is sent too, or an address.
      host,
      ...(isIP(host) === 0 && { servername: host }),
      ...(unchecked.has(mode) && { rejectUnauthorized: false }),
    };
    const tls = endsOnce(connectTls(options));
    onSocket(tls, socket);
    await firstOf(tls, 'secureConnect');
    return tls;
  } catch (error) {
    return failing(error);
  } finally {
    clearTimeout(timer);
  }
}

/** The values of the event, or the error of a socket that ends before it. */
function firstOf(socket: Socket, event: string): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    socket.once(event, (...values: unknown[]) => resolve(values));
    socket.once('error', reject);
    socket.once('close', () => reject(closedEarly()));
  });
}

function closedEarly(): Error {
  return Object.assign(new Error('the connection was closed during the negotiation of TLS'), {
    code: 'ECONNRESET',
  });
}

/** A socket that fails as soon as the driver listens to it. */
function failing(error: unknown): Socket {
  const cause =
    unavailableCodes.test(codeOf(error)) && error instanceof Error
      ? error
      : new StoaError('invalid_config', `TLS to PostgreSQL failed: ${messageOf(error)}.`, {
          fix: 'Check sslmode in the URL, and the certificate of the server. NODE_EXTRA_CA_CERTS names a file with more authorities.',
          cause: error,
        });
  const socket = endsOnce(new Socket());
  setImmediate(() => socket.destroy(cause));
  return socket;
}
