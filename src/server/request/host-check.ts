/**
 * Protects against DNS rebinding: checks Host and Origin, because a page can make its own name resolve to
 * this server.
 */
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';

const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

export class HostCheck {
  readonly #names: ReadonlySet<string>;

  readonly #origins: ReadonlySet<string>;

  /**
   * `host` is the bound address, `allowedHosts` are further names, `allowedOrigins` are other sites whose
   * pages may call the server.
   */
  constructor(host: string, allowedHosts: readonly string[] = [], allowedOrigins: readonly string[] = []) {
    this.#origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase()));
    this.#names = new Set(
      [...loopbackNames, bracketed(host), ...allowedHosts].map((name) => name.toLowerCase()),
    );
  }

  check(request: FastifyRequest): void {
    const { host, origin } = request.headers;
    const name = host === undefined ? undefined : nameOfHost(host);
    if (name === undefined || !this.#serves(name, request))
      throw refusal(`The Host "${(host ?? '').slice(0, 100)}" is not allowed.`);
    if (origin === undefined || this.#origins.has(origin.toLowerCase())) return;
    const from = nameOfOrigin(origin);
    if (from === undefined || !this.#serves(from, request))
      throw refusal(`The Origin "${origin.slice(0, 100)}" is not allowed.`);
  }

  /** The address itself is always accepted: rebinding needs a name. */
  #serves(name: string, request: FastifyRequest): boolean {
    return this.#names.has(name) || name === bracketed(request.socket.localAddress ?? '');
  }
}

/** HTTP/1.1 requires one Host on every request; HTTP/1.0 does not have it. */
export function requireHost({ headers, raw }: FastifyRequest): void {
  const { host } = headers;
  if (host?.includes(',') === true)
    throw new StoaError('invalid_request', 'The request has more than one Host header.', {
      fix: 'Send it once.',
    });
  if (host !== undefined || raw.httpVersion === '1.0') return;
  throw new StoaError('invalid_request', 'The request has no Host header.', {
    fix: 'Send it with the name and port of the server.',
  });
}

function bracketed(address: string): string {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address;
  return plain.includes(':') && !plain.startsWith('[') ? `[${plain}]` : plain;
}

function nameOfHost(host: string): string | undefined {
  return /^(\[[0-9a-f:.]+\]|[^:/@\s[\]]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase();
}

function nameOfOrigin(origin: string): string | undefined {
  const rest = /^https?:\/\/(.+)$/i.exec(origin)?.[1];
  return rest === undefined ? undefined : nameOfHost(rest);
}

function refusal(detail: string): StoaError {
  return new StoaError('origin_refused', detail, {
    fix: "Use localhost or the server's address, or add the host to the setting allowed_hosts or the origin to allowed_origins.",
  });
}
