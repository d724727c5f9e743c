/** A reader of server-sent events. */
import type { AnswerFields } from './answer-fields.js';

export interface StreamedEvent {
  event: string;
  id: string | undefined;
  data: AnswerFields;
}

/** A reader of server-sent events. */
export class Stream {
  readonly events: StreamedEvent[] = [];
  readonly #abort = new AbortController();
  #wake: (() => void)[] = [];
  status = 0;
  /** The server has ended the stream. */
  ended = false;

  static async open(url: string, headers: Record<string, string> = {}): Promise<Stream> {
    const stream = new Stream();
    const response = await fetch(url, { headers, signal: stream.#abort.signal });
    stream.status = response.status;
    if (response.body !== null) void stream.#read(response.body);
    return stream;
  }

  get messages(): StreamedEvent[] {
    return this.events.filter(({ event }) => event === 'message');
  }

  /** Resolves when the given number of messages has arrived. */
  async until(count: number, of: (stream: this) => unknown[] = (stream) => stream.messages): Promise<void> {
    while (of(this).length < count) await new Promise<void>((resolve) => this.#wake.push(resolve));
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    let rest = '';
    try {
      for await (const chunk of body) {
        rest += decoder.decode(chunk, { stream: true });
        const blocks = rest.split('\n\n');
        rest = blocks.pop() ?? '';
        for (const block of blocks) this.#take(block);
      }
      this.ended = true;
    } catch (error) {
      if (!this.#abort.signal.aborted) throw error;
    }
  }

  #take(block: string): void {
    const fields = new Map(
      block
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)] as const),
    );
    const data = fields.get('data');
    if (data === undefined) return;
    this.events.push({
      event: fields.get('event') ?? 'message',
      id: fields.get('id'),
      data: JSON.parse(data),
    });
    const wake = this.#wake;
    this.#wake = [];
    for (const resolve of wake) resolve();
  }
}
