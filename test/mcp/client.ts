/** Real MCP clients of both generations of the protocol, connected to a running server. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { credentials } from '../server/running.js';
import type { AnswerFields } from '../../src/messaging/conformance/kit/answer-fields.js';

export const generations = ['legacy', 'modern'] as const;
export type Generation = (typeof generations)[number];

export interface ToolOutcome {
  isError: boolean;
  value: AnswerFields;
}

/** A client that speaks the protocol of 2025 with a session, or of 2026 without one. */
export class TestClient {
  readonly client: Client;

  constructor(client: Client) {
    this.client = client;
  }

  static of(generation: Generation, name = 'test-client'): Client {
    return new Client(
      { name, version: '1.0.0' },
      { versionNegotiation: { mode: generation === 'legacy' ? 'legacy' : { pin: '2026-07-28' } } },
    );
  }

  static async connect(
    url: string,
    as: string | Record<string, string>,
    generation: Generation,
    headers: Record<string, string> = {},
  ): Promise<TestClient> {
    const client = TestClient.of(generation);
    await client.connect(
      new StreamableHTTPClientTransport(new URL('/mcp', url), {
        requestInit: { headers: { ...credentials(as), ...headers } },
      }),
    );
    return new TestClient(client);
  }

  /** Calls a tool; the client itself checks the answer against the tool's output schema. */
  async call(name: string, input: Record<string, unknown> = {}): Promise<ToolOutcome> {
    const result = await this.client.callTool({ name, arguments: input });
    const [first] = result.content;
    if (first?.type !== 'text') throw new Error(`${name} answered no text: ${JSON.stringify(result)}`);
    const text: unknown = JSON.parse(first.text);
    return {
      isError: result.isError === true,
      value: (result.isError === true
        ? (text as { error: unknown }).error
        : result.structuredContent) as AnswerFields,
    };
  }

  /** The answer of a call that must succeed. */
  async ok(name: string, input: Record<string, unknown> = {}): Promise<AnswerFields> {
    const { isError, value } = await this.call(name, input);
    if (isError) throw new Error(`${name} failed: ${JSON.stringify(value)}`);
    return value;
  }

  close(): Promise<void> {
    return this.client.close();
  }
}
