/** Protects against DNS rebinding: checks Host, because a page can make its own name resolve to this server. */
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';

const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];
const guarded = /^\/(v1|mcp|console)([/?]|$)/;

/** Whether the Host of requests to this URL is checked. AICQ's clients may use any host name. */
export function isGuarded(url: string): boolean {
  return guarded.test(url);
}

export class HostCheck {
  readonly #names: ReadonlySet<string>;

  /** `host` is the bound address, `allowedHosts` are further names. */
  constructor(host: string, allowedHosts: readonly string[] = []) {
    this.#names = new Set(
      [...loopbackNames, bracketed(host), ...allowedHosts].map((name) => name.toLowerCase()),
    );
  }

  check(request: FastifyRequest): void {
    const { host } = request.headers;
    if (!this.serves(request))
      throw new StoaError(
        'origin_refused',
        `The Host "${(host ?? '').slice(0, 100)}" is not a name of this server.`,
        { fix: "Use localhost or the server's address, or add the host to the setting allowed_hosts." },
      );
  }

  /** For a page that has another answer for other hosts. */
  serves(request: FastifyRequest): boolean {
    const name = nameOfHost(request.headers.host ?? '');
    return name !== undefined && this.#serves(name, request);
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
