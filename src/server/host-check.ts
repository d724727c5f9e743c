/** The defence against DNS rebinding: a page that made its own name point here is told apart by Host and Origin. */
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../core/errors.js';

const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

export class HostCheck {
  readonly #names: ReadonlySet<string>;

  readonly #origins: ReadonlySet<string>;

  /** `host` is what the server binds to, `allowedHosts` further names under which it is reached, `allowedOrigins` other sites whose pages may call it. */
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
      throw refusal(`The Host "${(host ?? '').slice(0, 100)}" is not served here.`);
    if (origin === undefined || this.#origins.has(origin.toLowerCase())) return;
    const from = nameOfOrigin(origin);
    if (from === undefined || !this.#serves(from, request))
      throw refusal(`Pages of the Origin "${origin.slice(0, 100)}" may not call this server.`);
  }

  /** The address itself is always good: rebinding needs a name. */
  #serves(name: string, request: FastifyRequest): boolean {
    return this.#names.has(name) || name === bracketed(request.socket.localAddress ?? '');
  }
}

/** HTTP/1.1 asks for one on every request; HTTP/1.0 does not know it. */
export function requireHost({ headers, raw }: FastifyRequest): void {
  const { host } = headers;
  if (host?.includes(',') === true)
    throw new StoaError('invalid_request', 'The request has more than one Host.', {
      fix: 'Send the header Host once.',
    });
  if (host !== undefined || raw.httpVersion === '1.0') return;
  throw new StoaError('invalid_request', 'The request has no Host.', {
    fix: 'Send the header Host with the name and port of the server.',
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
    fix: "Call it by localhost or its address, or add the name to the setting allowed_hosts, a page's to allowed_origins.",
  });
}
