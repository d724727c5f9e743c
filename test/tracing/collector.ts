/** An OpenTelemetry collector on a free port: takes OTLP as JSON over HTTP, and keeps what it got. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';

interface Attribute {
  key: string;
  value: { stringValue?: string; boolValue?: boolean; intValue?: string; doubleValue?: number };
}

interface Export {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { scope: { name: string; version: string }; spans: OtlpSpan[] }[];
  }[];
}

interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attribute[];
  status: { code?: number };
}

export interface ReceivedSpan extends Omit<OtlpSpan, 'attributes'> {
  facts: Record<string, string | number | boolean>;
  resource: Record<string, string | number | boolean>;
}

export class Collector {
  readonly spans: ReceivedSpan[] = [];
  readonly requests: { path: string; headers: IncomingHttpHeaders }[] = [];
  /** Everything that was sent, as text. */
  text = '';
  /** Statuses for the next requests; 200 when there are no more. */
  readonly answers: number[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const status = this.answers.shift() ?? 200;
        this.requests.push({ path: request.url ?? '', headers: request.headers });
        const body = Buffer.concat(chunks);
        if (status === 200)
          this.#take(
            request.headers['content-encoding'] === 'gzip' ? gunzipSync(body).toString() : body.toString(),
          );
        response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
      });
    });
  }

  static async start(): Promise<Collector> {
    const collector = new Collector();
    collector.#server.listen(0, '127.0.0.1');
    await once(collector.#server, 'listening');
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  named(name: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #take(text: string): void {
    this.text += text;
    for (const { resource, scopeSpans } of (JSON.parse(text) as Export).resourceSpans) {
      for (const { spans } of scopeSpans) {
        for (const { attributes, ...span } of spans)
          this.spans.push({ ...span, facts: factsOf(attributes), resource: factsOf(resource.attributes) });
      }
    }
  }
}

function factsOf(attributes: readonly Attribute[]): Record<string, string | number | boolean> {
  return Object.fromEntries(
    attributes.map(({ key, value: { stringValue, boolValue, intValue, doubleValue } }) => [
      key,
      stringValue ?? boolValue ?? (intValue === undefined ? (doubleValue as number) : Number(intValue)),
    ]),
  );
}
