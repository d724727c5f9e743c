/** A server on a free port, with tokens for everyone who calls in the tests. */
import { once } from 'node:events';
import { createConnection } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { operatorCaller, fullScopes } from '../../src/core/caller.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { type AppOptions, createApp, stopApp } from '../../src/server/app.js';
import type { Authenticator } from '../../src/server/request/authentication.js';
import type { AnswerFields } from '../../src/messaging/conformance/kit/answer-fields.js';

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
  json: AnswerFields;
}

export interface Ask {
  /** A bearer token, or headers with other credentials. */
  as?: string | Record<string, string>;
  body?: unknown;
  /** Sent unchanged, instead of `body`. */
  raw?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
}

/** The messaging identity of those agents. */
export const testIdentity = '018f0000-0000-7000-8000-000000000001';

/** Replaces signatures: `x-test-agent` names an agent of alice by its id. */
export const testAgents: Authenticator = {
  name: 'test',
  needs: 'body',
  claims: (request) => request.headers['x-test-agent'] !== undefined,
  authenticate: (request) => ({
    kind: 'agent',
    user: 'alice',
    agent: 'signed',
    identity: testIdentity,
    agentId: String(request.headers['x-test-agent']),
    scopes: fullScopes,
    tokenId: null,
  }),
};

export class Running {
  readonly stoa: Stoa;
  readonly app: FastifyInstance;
  readonly url: string;
  readonly operator: string;
  /** Tokens of two users, and one of alice's that can only read. */
  readonly alice: string;
  readonly bob: string;
  readonly reader: string;

  private constructor(
    stoa: Stoa,
    app: FastifyInstance,
    url: string,
    tokens: { alice: string; bob: string; reader: string },
  ) {
    this.stoa = stoa;
    this.app = app;
    this.url = url;
    this.operator = stoa.operatorToken;
    this.alice = tokens.alice;
    this.bob = tokens.bob;
    this.reader = tokens.reader;
  }

  static async start(options: Partial<StoaOptions> = {}, appOptions: AppOptions = {}): Promise<Running> {
    const stoa = await openStoa({ data: '', engine: 'memory', ...options });
    const app = createApp(stoa, { authenticators: [testAgents], ...appOptions });
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const tokenOf = async (user: string, write = true) =>
      (await stoa.identity.createToken(operatorCaller(), user, { scopes: { write } }, null)).token;
    return new Running(stoa, app, url, {
      alice: await tokenOf('alice'),
      bob: await tokenOf('bob'),
      reader: await tokenOf('alice', false),
    });
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  async ask(method: string, path: string, { as, body, raw, headers = {} }: Ask = {}): Promise<Reply> {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...credentials(as),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(raw !== undefined ? { body: raw } : body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await textOf(response);
    const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson && text.length > 0 ? JSON.parse(text) : undefined,
    };
  }

  /**
   * Bytes on a bare connection, for requests that no client library would send; answers all that came back.
   */
  async bytes(request: string): Promise<string> {
    const socket = createConnection({ port: this.port, host: '127.0.0.1' });
    let answer = '';
    socket.setEncoding('latin1').on('data', (chunk) => (answer += String(chunk)));
    await once(socket, 'connect');
    socket.write(request);
    await once(socket, 'close');
    return answer;
  }

  async stop(): Promise<void> {
    await stopApp(this.app, 5);
    await this.stoa.close();
  }
}

/** The whole answer, or what a stream begins with: a stream itself does not end. */
async function textOf(response: Response): Promise<string> {
  if (
    response.headers.get('content-type')?.startsWith('text/event-stream') !== true ||
    response.body === null
  )
    return response.text();
  const reader = response.body.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return new TextDecoder().decode(value);
}

export function credentials(as: Ask['as']): Record<string, string> {
  if (as === undefined) return {};
  return typeof as === 'string' ? { authorization: `Bearer ${as}` } : as;
}
