/**
 * Passes MCP messages between a pipe and a server unchanged, and hides sessions and restarts of the server.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError, messageOf } from '../../core/errors.js';
import { readEvents } from '../connection/answers.js';
import { type Line, linesOf } from './lines.js';
import { keepListening, listenAgainMs } from './listening.js';
import {
  type Message,
  type SingleMessage,
  errorFor,
  failureOf,
  methodOf,
  parsed,
  requestIds,
} from './messages.js';
import { Presence } from './presence.js';
import { isRepeatable } from './repeatable.js';
import { scoped } from './scope.js';
import { type ServerAddress, ServerLink, isRefused } from './server-link.js';

export interface StdioBridgeOptions {
  input: AsyncIterable<Uint8Array>;
  /** Receives one message on each line. */
  write(line: string): void;
  /** The name that the client's agent was given; otherwise the server or the bridge chooses one. */
  agent: string | undefined;
  /** The repository that calls mean by default. */
  scope: string | undefined;
  /** The current address of the server; called again when the server is gone. */
  findServer(): Promise<ServerAddress>;
  /** The limit `bodyBytesMax`: a line becomes the body of a request. */
  lineBytesMax: number;
  /** Prints a sentence for people; the client does not receive it. */
  say(sentence: string): void;
}

export class StdioBridge {
  readonly #options: StdioBridgeOptions;
  readonly #link: ServerLink;
  readonly #presence: Presence;
  readonly #running = new Map<string | number, AbortController>();
  /** Requests that end only when the client ends them. */
  readonly #listening = new Set<string | number>();
  readonly #subscribed = new Set<string>();
  readonly #ended = new AbortController();
  /** The client's `initialize`, to open another session if the server has lost this one. */
  #initialize: Message | undefined;
  #reopening: Promise<void> | undefined;

  constructor(options: StdioBridgeOptions) {
    this.#options = options;
    this.#link = new ServerLink(() => options.findServer(), options.agent);
    this.#presence = new Presence(this.#link, options.say);
  }

  /** Ends when the client has closed its end and all its requests are answered. */
  async run(): Promise<void> {
    await this.#link.address();
    this.#presence.start();
    const pending = new Set<Promise<void>>();
    for await (const line of linesOf(this.#options.input, this.#options.lineBytesMax)) {
      const sending = this.#take(line).finally(() => pending.delete(sending));
      pending.add(sending);
    }
    // A stream of changes has no end.
    for (const [id, controller] of this.#running) if (this.#listening.has(id)) controller.abort();
    await Promise.all(pending);
    this.#ended.abort();
    await this.#presence.close();
    await this.#endSession();
  }

  async #take(line: Line): Promise<void> {
    const sent = line.kind === 'message' ? parsed(line.text) : undefined;
    const { scope } = this.#options;
    const message = sent === undefined || scope === undefined ? sent : scoped(sent, scope);
    if (message === undefined) {
      this.#answer(
        errorFor(
          null,
          -32_700,
          line.kind === 'message'
            ? 'Parse error: the line is not JSON.'
            : `Parse error: the line is longer than ${this.#options.lineBytesMax} bytes (bodyBytesMax).`,
        ),
      );
      return;
    }
    try {
      await this.#forward(message);
    } catch (error) {
      const failure = failureOf(error);
      this.#options.say(failure.message);
      for (const id of requestIds(message))
        this.#answer(errorFor(id, -32_000, failure.message, failure.data));
    }
  }

  async #forward(message: Message): Promise<void> {
    const method = methodOf(message);
    if (method === 'notifications/cancelled') this.#cancel(message);
    this.#note(method, message);
    await this.#presence.name(message);
    const [id] = requestIds(message);
    const controller = new AbortController();
    if (id !== undefined) this.#running.set(id, controller);
    if (id !== undefined && method === 'subscriptions/listen') this.#listening.add(id);
    try {
      if (method === 'subscriptions/listen' && !Array.isArray(message))
        await this.#keepListening(message, controller.signal);
      else await this.#exchange(message, controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) throw error;
    } finally {
      if (id !== undefined) {
        this.#running.delete(id);
        this.#listening.delete(id);
      }
    }
    if (method === 'notifications/initialized' && this.#link.session !== undefined)
      void this.#listen(this.#link.session);
  }

  /** The server may be killed while it sends the answer of a call that is harmless twice. */
  async #exchange(message: Message, signal: AbortSignal): Promise<void> {
    try {
      await this.#exchangeOnce(message, signal);
    } catch (error) {
      if (signal.aborted || !isRepeatable(message) || error instanceof StoaError) throw error;
      this.#link.lost();
      await this.#exchangeOnce(message, signal);
    }
  }

  async #exchangeOnce(message: Message, signal: AbortSignal): Promise<void> {
    const { session } = this.#link;
    const response = await this.#link.post(message, signal);
    if (response.status === 404 && session !== undefined && methodOf(message) !== 'initialize') {
      await response.body?.cancel();
      await this.#reopen(session);
      await this.#pass(await this.#link.post(message, signal), message);
      return;
    }
    if (methodOf(message) === 'initialize')
      this.#link.session = response.headers.get('mcp-session-id') ?? undefined;
    await this.#pass(response, message);
  }

  #keepListening(message: SingleMessage, signal: AbortSignal): Promise<void> {
    return keepListening({
      message,
      signal,
      post: (...given) => this.#link.post(...given),
      pass: (response) => this.#pass(response, message),
      write: (line) => this.#answer(line),
    });
  }

  async #pass(response: Response, message: Message): Promise<void> {
    if (
      response.headers.get('content-type')?.startsWith('text/event-stream') === true &&
      response.body !== null
    ) {
      for await (const event of readEvents(response.body))
        if (event.event === 'message' && event.data !== '') this.#answer(event.data);
      return;
    }
    const text = await response.text();
    const body = text === '' ? undefined : parsed(text);
    if (body !== undefined && 'jsonrpc' in [body].flat()[0]!) {
      this.#learn(message, body);
      this.#answer(text);
    } else if (!response.ok) {
      throw this.#refusalOf(response.status, body);
    }
  }

  /** The agent of the client may get a key of its own, which the client does not have. */
  #refusalOf(status: number, body: unknown): StoaError {
    const failure = failureOfAnswer(status, body);
    if (!this.#losesName(failure)) return failure;
    return new StoaError('forbidden', failure.message, {
      fix: 'Send the call again: the next call of this client has another name.',
    });
  }

  /** Whether the server refused the name, and the client can continue under another. */
  #losesName({ code, details }: StoaError): boolean {
    return code === 'forbidden' && details?.['agent'] === this.#link.agent && this.#link.loseName();
  }

  /** Remembers what later requests and a reopened session need. */
  #note(method: string | undefined, message: Message): void {
    if (Array.isArray(message)) return;
    const { uri } = (message.params ?? {}) as { uri?: unknown };
    if (method === 'initialize') {
      this.#initialize = message;
      this.#link.session = undefined;
      this.#link.protocolVersion = undefined;
    }
    if (method === 'resources/subscribe' && typeof uri === 'string') this.#subscribed.add(uri);
    if (method === 'resources/unsubscribe' && typeof uri === 'string') this.#subscribed.delete(uri);
  }

  #learn(message: Message, answer: Message): void {
    if (methodOf(message) !== 'initialize' || Array.isArray(answer)) return;
    const { protocolVersion } = (answer.result ?? {}) as { protocolVersion?: unknown };
    if (typeof protocolVersion === 'string') this.#link.protocolVersion = protocolVersion;
  }

  #cancel(message: Message): void {
    if (Array.isArray(message)) return;
    const { requestId } = (message.params ?? {}) as { requestId?: unknown };
    // With a session the server gets a message; without one, it detects the closed connection.
    if ((typeof requestId === 'string' || typeof requestId === 'number') && this.#link.session === undefined)
      this.#running.get(requestId)?.abort();
  }

  /** Opens another session in place of one that the server has lost. Concurrent calls wait for the first. */
  async #reopen(lost: string): Promise<void> {
    if (this.#link.session !== lost) return;
    this.#reopening ??= this.#openAgain().finally(() => (this.#reopening = undefined));
    await this.#reopening;
  }

  async #openAgain(): Promise<void> {
    if (this.#initialize === undefined) return;
    const { signal } = this.#ended;
    const open = async () => {
      const answer = await this.#link.send('POST', signal, this.#initialize, null);
      const session = answer.headers.get('mcp-session-id');
      return session ?? noSession(answer, parsed(await answer.text()));
    };
    let session = await open();
    // A name that the client was not given may belong to an agent with a key of its own now.
    if (session instanceof StoaError && this.#losesName(session)) session = await open();
    if (session instanceof StoaError) throw session;
    await this.#sendAgain({ jsonrpc: '2.0', method: 'notifications/initialized' }, session);
    for (const uri of this.#subscribed)
      await this.#sendAgain(
        { jsonrpc: '2.0', id: `again ${uri}`, method: 'resources/subscribe', params: { uri } },
        session,
      );
    this.#link.session = session;
    void this.#listen(session);
  }

  async #sendAgain(message: Message, session: string): Promise<void> {
    await (await this.#link.send('POST', this.#ended.signal, message, session)).text();
  }

  /** Passes on the messages that the server sends without a request, while the session is this one. */
  async #listen(session: string): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted && this.#link.session === session) {
      try {
        const response = await this.#link.send('GET', signal);
        if (response.ok && response.body !== null)
          for await (const event of readEvents(response.body))
            if (event.event === 'message' && event.data !== '') this.#answer(event.data);
        if (response.status === 404) await this.#reopen(session);
        if (response.status === 405) return;
      } catch (error) {
        if (signal.aborted) return;
        this.#link.lost();
        if (!isRefused(error))
          this.#options.say(`The stream from the server was interrupted: ${messageOf(error)}.`);
      }
      await sleep(listenAgainMs, undefined, { ref: false });
    }
  }

  async #endSession(): Promise<void> {
    if (this.#link.session === undefined) return;
    try {
      await this.#link.send('DELETE', AbortSignal.timeout(1_000));
    } catch (error) {
      // The server ends an idle session after a while.
      this.#options.say(`The session could not be ended: ${messageOf(error)}.`);
    }
  }

  #answer(message: string): void {
    this.#options.write(message);
  }
}

/** Why an answer to `initialize` opens no session. */
function noSession({ ok, status }: Response, body: unknown): StoaError {
  if (!ok) return failureOfAnswer(status, body);
  return new StoaError(
    'unreachable',
    `The server lost the session of this client and opened no other: its answer to initialize (${status}) has no Mcp-Session-Id header.`,
    { fix: 'Start the client again. If this continues, check what answers at the address of the server.' },
  );
}

function failureOfAnswer(status: number, body: unknown): StoaError {
  // An answer with another status than 2xx is a problem of RFC 9457.
  const { detail, fix, details } = (typeof body === 'object' && body !== null ? body : {}) as {
    detail?: unknown;
    fix?: unknown;
    details?: Record<string, unknown>;
  };
  return new StoaError(
    status === 401 ? 'unauthenticated' : status === 403 ? 'forbidden' : 'unreachable',
    typeof detail === 'string' ? detail : `The server answered ${status}.`,
    {
      fix: typeof fix === 'string' ? fix : 'Check that the URL is that of a Stoa server.',
      ...(typeof details === 'object' && { details }),
    },
  );
}
