/** Agents that sign like AICQ's clients, and the server that they call. */
import { randomBytes, randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import type { Limits } from '../../../core/settings/limits.js';
import { isoTime } from '../../../core/text/iso-time.js';
import type { IdentityService } from '../../../identity/service.js';
import { aicqSignedText, linkText, sign, signingKeysOf } from '../../../identity/signatures.js';
import { contentDigest, signatureBase } from '../../../identity/signatures-rfc9421.js';
import type { MessagingService, MessagingSettings } from '../../service.js';
import type { AnswerFields } from './answer-fields.js';

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  json: AnswerFields;
}

export interface Request {
  body?: unknown;
  raw?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
}

/** The limits of a test that is not about limits. */
export const roomy = {
  postsPerMinuteMax: 100_000,
  messageBytesPerMinuteMax: 100_000_000,
  registrationsPerHourMax: 100_000,
  roomsCreatedPerHourMax: 100_000,
  roomReadsPerMinuteMax: 100_000,
  searchesPerMinuteMax: 100_000,
  profileReadsPerMinuteMax: 100_000,
  profileChangesPerHourMax: 100_000,
  channelReadsPerMinuteMax: 100_000,
  deletesPerMinuteMax: 100_000,
  directSendsPerMinuteMax: 100_000,
  directReadsPerMinuteMax: 100_000,
  addressRequestsPerMinuteMax: 1_000_000,
  roomKeyGuessesPerMinuteMax: 1_000,
};

/** What the suites use besides HTTP. */
export interface MessagingServerStoa {
  readonly messaging: MessagingService;
  readonly identity: Pick<IdentityService, 'createToken'>;
  readonly secrets: {
    rekey(): Promise<{ resealed: Readonly<Record<string, number>> }>;
    readonly sealer: {
      seal(secret: string, associated: string): string;
      open(sealed: string, associated: string): string;
    };
  };
  readonly operatorToken: string;
  close(): Promise<void>;
}

/** The options of a server of the suites that differ from the defaults. */
export interface MessagingServerOptions {
  limits?: Partial<Limits>;
  /** Milliseconds since 1970. */
  clock?: () => number;
  messagingSettings?: Partial<MessagingSettings>;
  /** Sites whose pages may call the server. */
  corsOrigin?: readonly string[];
}

/** The home under test. */
export interface Backend {
  name: string;
  /** Starts a server on empty storage, with the limits in `roomy` unless others are given. */
  open(options?: MessagingServerOptions): Promise<MessagingServer>;
}

/** A server that listens on this machine. */
export abstract class MessagingServer {
  abstract readonly stoa: MessagingServerStoa;
  abstract readonly url: string;

  /** Ends the server. Running requests get the given number of seconds. The storage stays open. */
  abstract stop(seconds: number): Promise<void>;

  async ask(method: string, path: string, { body, raw, headers = {} }: Request = {}): Promise<Answer> {
    const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(this.url + path, {
      method,
      headers: { ...(sent === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(sent !== undefined && { body: sent }),
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson && text !== '' ? JSON.parse(text) : undefined,
    };
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask('GET', path, { headers });
  }

  send(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask('POST', path, { body, headers });
  }

  /**
   * Sends bytes on a plain connection. Returns the received text when the server closes the connection, after
   * the first answer, or after the given time.
   */
  talk(bytes: string | Uint8Array, cutAfterMs?: number): Promise<string> {
    return new Promise((resolve) => {
      const socket = connect(Number(new URL(this.url).port), '127.0.0.1', () => socket.write(bytes));
      const parts: Buffer[] = [];
      socket.on('data', (part: Buffer) => {
        parts.push(part);
        if (cutAfterMs !== undefined) socket.destroy();
      });
      // The server may reset the connection of an invalid request. The text before the reset is returned.
      socket.on('error', () => socket.destroy());
      socket.on('close', () => resolve(Buffer.concat(parts).toString()));
      if (cutAfterMs !== undefined) setTimeout(() => socket.destroy(), cutAfterMs);
    });
  }

  /** A new agent, registered. */
  async agent(name?: string): Promise<Agent> {
    const agent = new Agent(this);
    const { json, status } = await this.send('/register', {
      public_key: agent.publicKey,
      ...(name !== undefined && { name }),
    });
    if (status !== 201) throw new Error(`registering answered ${status} ${JSON.stringify(json)}`);
    agent.id = json.id;
    return agent;
  }

  async room(creator: Agent, name = `room-${randomUUID().slice(0, 8)}`, key?: string): Promise<string> {
    const { json, status } = await creator.send('/room', {
      name,
      ...(key !== undefined && { is_private: true, key }),
    });
    if (status !== 201) throw new Error(`making a room answered ${status} ${JSON.stringify(json)}`);
    return json.id;
  }

  async close(): Promise<void> {
    await this.stop(5);
    await this.stoa.close();
  }
}

export class Agent {
  readonly #server: MessagingServer;
  readonly seed: Buffer;
  readonly publicKey: string;
  readonly #secretKey: Buffer;
  id = '';

  constructor(server: MessagingServer, seed: Buffer = randomBytes(32)) {
    const keys = signingKeysOf(seed);
    this.#server = server;
    this.seed = seed;
    this.publicKey = keys.publicKey.toString('base64');
    this.#secretKey = keys.secretKey;
  }

  sign(text: string): string {
    return sign(this.#secretKey, text).toString('base64');
  }

  /** The identity's signed consent to a link with an agent of the registry. */
  consent(agentId: string, signedAtMs = Date.now()): { signed_at: string; signature: string } {
    const signed_at = isoTime(signedAtMs);
    return { signed_at, signature: this.sign(linkText(this.id, agentId, signed_at)) };
  }

  /** The four headers over a body. */
  headers(
    body: string | Uint8Array = '',
    {
      nonce = randomBytes(16).toString('hex'),
      timestamp = Date.now() as number | string,
      agent = this.id,
    } = {},
  ): Record<string, string> {
    const text = aicqSignedText(Buffer.from(body), nonce, String(timestamp));
    return {
      'x-aicq-agent': agent,
      'x-aicq-nonce': nonce,
      'x-aicq-timestamp': String(timestamp),
      'x-aicq-signature': this.sign(text),
    };
  }

  /** An RFC 9421 signature over a request. */
  messageSignature(
    method: string,
    path: string,
    body = '',
    {
      nonce = randomBytes(16).toString('hex'),
      created = Math.floor(Date.now() / 1000),
      components = ['@method', '@target-uri', 'content-digest'],
      extra = {} as Record<string, string>,
      more = '',
      url = this.#server.url,
    } = {},
  ): Record<string, string> {
    const headers: Record<string, string> = { ...extra, 'content-digest': contentDigest(Buffer.from(body)) };
    const parameters = `(${components.map((name) => `"${name}"`).join(' ')});created=${created};nonce="${nonce}";keyid="${this.id}";alg="ed25519"${more}`;
    const base = signatureBase({ method, targetUri: url + path, headers }, components, parameters);
    return {
      ...headers,
      'signature-input': `sig1=${parameters}`,
      signature: `sig1=:${this.sign(base ?? '')}:`,
    };
  }

  ask(method: string, path: string, { body, raw, headers = {} }: Request = {}): Promise<Answer> {
    const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    return this.#server.ask(method, path, {
      ...(sent !== undefined && { raw: sent }),
      headers: { ...this.headers(sent ?? ''), ...headers },
    });
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask('GET', path, { headers });
  }

  send(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    return this.ask('POST', path, { body, headers });
  }

  async post(
    room: string,
    text: string,
    extra: Record<string, unknown> = {},
    headers: Record<string, string> = {},
  ): Promise<{ id: string; ts: number }> {
    const { status, json } = await this.send(`/room/${room}`, { body: text, ...extra }, headers);
    if (status !== 201) throw new Error(`posting answered ${status} ${JSON.stringify(json)}`);
    return json;
  }
}

/** A server for one test. */
export async function onServer(
  backend: Backend,
  options: MessagingServerOptions,
  work: (server: MessagingServer) => Promise<void>,
): Promise<void> {
  const server = await backend.open(options);
  try {
    await work(server);
  } finally {
    await server.close();
  }
}

/** A server for one test, with an agent. */
export function withServer(
  backend: Backend,
  options: MessagingServerOptions,
  work: (server: MessagingServer, agent: Agent) => Promise<void>,
): Promise<void> {
  return onServer(backend, options, async (server) => work(server, await server.agent()));
}
