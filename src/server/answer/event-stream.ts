/** Server-sent events: limited for slow readers, kept alive while idle, ended when the server stops. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { countedAddress, plainAddress } from '../../messaging/gate/addresses.js';
import type { Identity } from '../../messaging/model.js';

export interface StreamEvent {
  /** The `event:` line; without it clients receive a `message`. */
  event?: string;
  /** The `id:` line, from which a client resumes with `Last-Event-ID`. */
  id?: string;
  /** Sent as JSON. */
  data: unknown;
}

export interface StreamOptions {
  /** Called when the stream has been idle for a while; the returned event is sent instead of a comment. */
  onIdle?: () => StreamEvent | undefined;
  /** Called once when the stream has ended, on either side. */
  onEnd?: () => void;
  headers?: Readonly<Record<string, string>>;
}

/** Whether the credentials of a proven caller are still valid. */
export type IsLive = (caller: Caller) => boolean | Promise<boolean>;

/** All open streams of the server. */
export class EventStreams {
  readonly #limits: Limits;
  readonly #isLive: IsLive;
  /** Each stream with its reader; null for a reader without credentials. */
  readonly #open = new Map<EventStream, Caller | null>();
  /** The number of open streams of each holder. */
  readonly #held = new Map<string, number>();
  /**
   * The latest calls of `endOf`: a request that was accepted before one of them may open its stream later.
   */
  readonly #endings: { atMs: number; isMeant: (caller: Caller) => boolean }[] = [];
  /** The streams of signed agents, each with the identity at the time of opening. */
  readonly #signed = new Map<EventStream, Identity>();
  #stopping = false;

  constructor(limits: Limits, isLive: IsLive) {
    this.#limits = limits;
    this.#isLive = isLive;
  }

  get count(): number {
    return this.#open.size;
  }

  /** False while the maximum number of streams is open. */
  get hasRoom(): boolean {
    return !this.#stopping && this.#open.size < this.#limits.streamsMax;
  }

  /** Takes over the reply and sends the head of the stream. The handler then returns `streaming`. */
  open(reply: FastifyReply, options: StreamOptions = {}): EventStream {
    if (this.#stopping)
      throw new StoaError('closed', 'The server is stopping.', { fix: 'Connect again shortly.' });
    if (this.#open.size >= this.#limits.streamsMax)
      throw limitError('overloaded', {
        subject: 'With this stream the server',
        unit: 'open event streams',
        limit: 'streamsMax',
        limits: this.#limits,
        received: this.#open.size + 1,
        advice: 'Close unused streams',
      });
    const { caller, signer, startedMs } = reply.request;
    if (caller !== null && this.#endings.some(({ atMs, isMeant }) => atMs >= startedMs && isMeant(caller))) {
      throw new StoaError('unauthenticated', 'The credentials changed while the request was processed.', {
        fix: 'Connect again with the new credentials.',
      });
    }
    const holder = holderOf(reply.request);
    const held = this.#held.get(holder ?? '') ?? 0;
    if (holder !== undefined && held >= this.#limits.streamsPerCallerMax)
      throw limitError('overloaded', {
        subject: 'With this stream the caller',
        unit: 'open event streams',
        limit: 'streamsPerCallerMax',
        limits: this.#limits,
        received: held + 1,
        advice: 'Close unused streams',
      });
    const stream = new EventStream(reply, this.#limits, {
      ...options,
      isAllowed: () => caller === null || this.#isLive(caller),
      onClose: () => {
        this.#open.delete(stream);
        this.#signed.delete(stream);
        if (holder !== undefined) this.#releaseStream(holder);
      },
    });
    this.#open.set(stream, caller);
    if (signer !== undefined) this.#signed.set(stream, signer.identity);
    if (holder !== undefined) this.#held.set(holder, held + 1);
    // A HEAD request has its answer by then.
    if (reply.request.method === 'HEAD') setImmediate(() => stream.end());
    return stream;
  }

  #releaseStream(holder: string): void {
    const left = (this.#held.get(holder) ?? 1) - 1;
    if (left > 0) this.#held.set(holder, left);
    else this.#held.delete(holder);
  }

  /** Ends the streams of callers who may no longer read them. */
  endOf(isMeant: (caller: Caller) => boolean): void {
    const atMs = performance.now();
    const keptSinceMs = atMs - this.#limits.requestSecondsMax * 1_000;
    while ((this.#endings[0]?.atMs ?? Infinity) < keptSinceMs) this.#endings.shift();
    this.#endings.push({ atMs, isMeant });
    for (const [stream, caller] of this.#open) if (caller !== null && isMeant(caller)) stream.end();
  }

  /**
   * Ends the streams of identities whose key or link has changed: another server of the same store may have
   * changed them.
   */
  async endOfChanged(
    current: (ids: readonly string[]) => Promise<ReadonlyMap<string, Identity>>,
    only?: string,
  ): Promise<void> {
    const opened = [...this.#signed].filter(([, { id }]) => only === undefined || id === only);
    if (opened.length === 0) return;
    const identities = await current([...new Set(opened.map(([, { id }]) => id))]);
    for (const [stream, { id, publicKey, link }] of opened) {
      const now = identities.get(id);
      if (now?.publicKey !== publicKey || JSON.stringify(now.link) !== JSON.stringify(link)) stream.end();
    }
  }

  /** Ends every stream and refuses new ones. */
  stop(): void {
    this.#stopping = true;
    for (const stream of this.#open.keys()) stream.end();
  }
}

/**
 * The name under which streams and spooled bytes are counted for one caller; undefined for the operator, who
 * has no limit.
 */
export function holderOf({ caller, ip }: FastifyRequest): string | undefined {
  if (caller === null) return `address ${countedAddress(plainAddress(ip))}`;
  return caller.kind === 'operator' ? undefined : `${caller.kind} ${caller.identity ?? caller.user}`;
}

/** An event in the format of the wire. */
export function eventText({ event, id, data }: StreamEvent): string {
  return `${event === undefined ? '' : `event: ${event}\n`}${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`;
}

interface AllowedStreamOptions extends StreamOptions {
  /** False when the reader's token is revoked or expired: the stream then ends before it sends more. */
  isAllowed: () => boolean | Promise<boolean>;
  /** Called once when the connection is closed: an ended stream needs memory until its reader has read the rest. */
  onClose: () => void;
}

export class EventStream {
  readonly #reply: FastifyReply;
  readonly #limits: Limits;
  readonly #options: AllowedStreamOptions;
  readonly #heartbeat: NodeJS.Timeout;
  #waiting: (() => void)[] = [];
  #stalledSinceMs: number | undefined;
  /** What waits while the reader's token is looked up. */
  #held: (string | Uint8Array)[] = [];
  #heldBytes = 0;
  #isLookingUp = false;
  #busy = false;
  #ended = false;
  #closed = false;

  constructor(reply: FastifyReply, limits: Limits, options: AllowedStreamOptions) {
    this.#reply = reply;
    this.#limits = limits;
    this.#options = options;
    const { raw } = reply;
    for (const [name, value] of Object.entries(reply.getHeaders()))
      if (value !== undefined) raw.setHeader(name, value);
    reply.hijack();
    raw.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      connection: 'close',
      'x-accel-buffering': 'no',
      ...options.headers,
    });
    raw.flushHeaders();
    const { socket } = raw;
    // A disconnected reader raises an error on the socket; the close after it ends the stream.
    raw.on('error', () => this.#finish());
    raw.on('close', () => {
      // A disconnected reader leaves the connection half open, which would delay a stop.
      socket?.destroy();
      this.#finish();
      this.#close();
    });
    raw.on('drain', () => this.#release());
    this.#heartbeat = setInterval(() => this.#beat(), limits.streamHeartbeatSeconds * 1000);
    this.#heartbeat.unref();
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** False if the reader is too far behind: it received a resync and the stream has ended. */
  send(event: StreamEvent): boolean {
    return this.#write(eventText(event));
  }

  /** Sends bytes that are already server-sent events. Returns the same as `send`. */
  pass(events: Uint8Array): boolean {
    return this.#write(events);
  }

  /** Resolves when the reader has received everything sent, or the stream has ended. */
  async drained(): Promise<void> {
    const { raw } = this.#reply;
    if (this.#ended || !(raw.writableNeedDrain || this.#isLookingUp)) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  end(): void {
    if (this.#ended) return;
    const { raw } = this.#reply;
    raw.end();
    // The reader may never read the rest.
    raw.setTimeout(this.#limits.streamStallSecondsMax * 1_000, () => raw.destroy());
    this.#finish();
  }

  #beat(): void {
    if (this.#isStalled()) {
      this.#reply.raw.destroy();
      return;
    }
    // Without an idle event the token is checked all the same.
    const idle = this.#busy ? '' : this.#idleText();
    this.#write(idle);
    this.#busy = false;
  }

  #idleText(): string {
    const event = this.#options.onIdle?.();
    return event === undefined ? ': idle\n\n' : eventText(event);
  }

  /** A reader that reads nothing for long uses a stream that others could have. */
  #isStalled(): boolean {
    if (!this.#reply.raw.writableNeedDrain) {
      this.#stalledSinceMs = undefined;
      return false;
    }
    this.#stalledSinceMs ??= performance.now();
    return performance.now() - this.#stalledSinceMs > this.#limits.streamStallSecondsMax * 1_000;
  }

  #write(text: string | Uint8Array): boolean {
    if (this.#ended) return false;
    this.#busy = true;
    const allowed = this.#isLookingUp ? undefined : this.#options.isAllowed();
    if (allowed === false) {
      this.end();
      return false;
    }
    if (allowed === true && this.#held.length === 0) this.#reply.raw.write(text);
    else this.#hold(text, allowed);
    return this.#keepsUp();
  }

  #hold(text: string | Uint8Array, allowed: boolean | Promise<boolean> | undefined): void {
    this.#held.push(text);
    this.#heldBytes += Buffer.byteLength(text);
    if (allowed !== undefined) void this.#sendHeld(allowed);
  }

  async #sendHeld(allowed: boolean | Promise<boolean>): Promise<void> {
    this.#isLookingUp = true;
    try {
      const isAllowed = await allowed;
      if (this.#ended) return;
      if (!isAllowed) return this.end();
      for (const text of this.#held) this.#reply.raw.write(text);
      this.#held = [];
      this.#heldBytes = 0;
      this.#keepsUp();
    } catch {
      // The database does not answer. The next event, or the next beat, looks again.
    } finally {
      this.#isLookingUp = false;
      if (!this.#reply.raw.writableNeedDrain) this.#release();
    }
  }

  #keepsUp(): boolean {
    const { raw } = this.#reply;
    if (raw.writableLength + this.#heldBytes <= this.#limits.streamBufferBytesMax) return true;
    raw.write(
      'event: resync\ndata: {"code":"resync","detail":"The reader is too slow; connect again from the last event."}\n\n',
    );
    this.end();
    return false;
  }

  #finish(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#heartbeat);
    this.#release();
    this.#options.onEnd?.();
    // A reader that disconnected before the stream was opened is closed already.
    if (this.#reply.raw.destroyed) this.#close();
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#options.onClose();
  }

  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
