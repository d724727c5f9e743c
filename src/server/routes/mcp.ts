/**
 * MCP inside the server. The protocol's code is loaded with the first request, so that it does not slow down
 * the start.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Method, Operation, OperationTable } from '../../api/operation.js';
import { StoaError } from '../../core/errors.js';
import type { Stoa } from '../../index.js';
import type { McpEndpoint } from '../../mcp/endpoint.js';
import type { EventStreams } from '../answer/event-stream.js';
import { parseJsonBody } from '../request/json-body.js';
import { type Answer, type Handler, JsonText, answer, routesOf, streaming } from '../route.js';

const reply = z.looseObject({ jsonrpc: z.literal('2.0'), id: z.union([z.string(), z.number(), z.null()]) });
const refused = reply
  .extend({ error: z.looseObject({ code: z.int(), message: z.string() }) })
  .meta({ id: 'JsonRpcError' });

/** Every status that the protocol's transports return. */
const answers = {
  200: reply.meta({ id: 'JsonRpcAnswer' }),
  202: null,
  400: refused,
  404: refused,
  405: refused,
  406: refused,
  409: refused,
  413: refused,
  415: refused,
  499: refused,
  500: refused,
};

const shared = {
  path: '/mcp',
  // Tools that write refuse a read-only token; the other tools accept it.
  writes: false,
  consumes: 'raw',
} as const;

const mcp = {
  send: {
    method: 'POST',
    summary: 'Send a Model Context Protocol message',
    streams: 'asked',
    ...shared,
  },
  listen: {
    method: 'GET',
    summary: 'Stream the messages of a session',
    streams: 'asked',
    ...shared,
  },
  end: { method: 'DELETE', summary: 'End a session', ...shared },
} as const satisfies OperationTable;

const schemas = {
  description:
    'Streamable HTTP, of the revisions 2025-03-26 to 2026-07-28. A token has the same rights as on /v1.',
  answers,
};

export const mcpRoutes = routesOf(
  'mcp',
  mcp,
  { send: schemas, listen: schemas, end: schemas },
  { send: handlerFor('POST'), listen: handlerFor('GET'), end: handlerFor('DELETE') },
);

function handlerFor(method: Method): Handler<Operation, typeof schemas> {
  return async ({ stoa, caller, rawBody, request, reply, streams }) => {
    const body = bodyOf(method, rawBody, stoa);
    if (body instanceof StoaError) return answer(body.status, rpcError(-32_700, body.message));
    const gone = new AbortController();
    // An abort makes an error with a stack trace, which is expensive; it is skipped if the answer was sent.
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) gone.abort();
    });
    const endpoint = await endpointOf(request);
    const handled = await endpoint.handle({
      request: webRequest(method, request, gone.signal),
      body,
      caller,
    });
    if (handled instanceof Response) return written(handled, reply, streams, gone);
    const text = new JsonText(handled.text);
    return handled.agent === undefined
      ? text
      : answer(200, text, { 'stoa-agent': encodeURIComponent(handled.agent) });
  };
}

const endpoints = new WeakMap<Stoa, Promise<McpEndpoint>>();

/** For the server's Stoa: the Stoa of a caller with a fencing number lasts for one request. */
function endpointOf({ server }: FastifyRequest): Promise<McpEndpoint> {
  const { stoa } = server.stoaServer;
  const known = endpoints.get(stoa);
  if (known !== undefined) return known;
  const loading = import('../../mcp/endpoint.js').then(({ McpEndpoint: Endpoint }) => new Endpoint(stoa));
  endpoints.set(stoa, loading);
  server.stoaServer.onStop(async () => {
    endpoints.delete(stoa);
    await (await loading).close();
  });
  return loading;
}

/** An error for a body that is not JSON: the protocol has its own format for it. */
function bodyOf(method: Method, rawBody: Buffer, { limits }: Stoa): unknown {
  if (method !== 'POST') return undefined;
  try {
    return parseJsonBody(rawBody, limits) ?? new StoaError('invalid_request', 'The body is empty.');
  } catch (error) {
    if (error instanceof StoaError) return error;
    throw error;
  }
}

function rpcError(code: number, text: string) {
  return { jsonrpc: '2.0' as const, error: { code, message: text }, id: null };
}

/**
 * A request with the members that the protocol's transports read if the parsed body is passed with it.
 * Node's Request follows its signal in a way that costs as much as the rest of the call.
 */
function webRequest(method: Method, { headers }: FastifyRequest, signal: AbortSignal): Request {
  const get = (name: string): string | null => {
    const value = headers[name.toLowerCase()];
    // A client without an Accept header gets either type.
    if (name.toLowerCase() === 'accept' && method === 'POST' && (value === undefined || value === '*/*'))
      return 'application/json, text/event-stream';
    return typeof value === 'string' ? value : null;
  };
  // The transports are typed for a full Request; the tests of both generations prove that these four members
  // are enough.
  return { method, url: 'http://localhost/mcp', headers: { get }, signal } as unknown as Request;
}

async function written(
  response: Response,
  reply: FastifyReply,
  streams: EventStreams,
  gone: AbortController,
): Promise<Answer<JsonText> | Answer<undefined> | typeof streaming> {
  const headers = Object.fromEntries(
    ['mcp-session-id', 'allow', 'stoa-agent'].flatMap((name): [string, string][] => {
      const value = response.headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (!isStream || response.body === null) {
    const text = await response.text();
    return text === ''
      ? answer(202, undefined, headers)
      : answer(response.status, new JsonText(text), headers);
  }
  const reader = response.body.getReader();
  const onEnd = (): void => {
    gone.abort();
    void reader.cancel();
  };
  try {
    void forward(reader, streams.open(reply, { headers, onEnd }));
  } catch (error) {
    // The stream has ended, but its subscriptions are still open.
    onEnd();
    throw error;
  }
  return streaming;
}

async function forward(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  stream: ReturnType<EventStreams['open']>,
): Promise<void> {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || !stream.pass(value)) break;
    }
  } finally {
    stream.end();
  }
}
