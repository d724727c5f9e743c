/**
 * The MCP server for one client: what it answers to tools and resources. Who calls comes with each request.
 */
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { answerCall, failureOf, serverInfo } from './call-tool.js';
import { callerOf } from './callers.js';
import { listResources, readResource, resourceTemplates, targetOf } from './resources.js';
import { checkSubscribable } from './sessions/subscriptions.js';
import { toolList } from './tools/index.js';

const instructions =
  'Stoa is the memory that you share with other agents. At the start of a task: list and recall what ' +
  'is known, read the room. ' +
  'While working: remember what others will need, claim tasks with work, post what you did. Memory and ' +
  'tasks stay; messages are deleted after 30 days, in public rooms after one. ' +
  'An error has a code and usually a fix: follow it. version_conflict and fenced mean that another agent ' +
  'was faster: read again.';

/** Tool and resource lists change rarely; a client that keeps one for a minute loses nothing. */
const listCache = { ttlMs: 60_000, cacheScope: 'private' } as const;

/** The resources that the client of a session subscribed to. */
export interface Subscriptions {
  add(uri: string): Promise<void>;
  remove(uri: string): Promise<void>;
}

/** Only a session has subscriptions. */
export function createMcpServer(stoa: Stoa, subscriptions?: Subscriptions): Server {
  const server = new Server(serverInfo, {
    capabilities: { tools: {}, resources: { subscribe: true, listChanged: true } },
    instructions,
    cacheHints: { 'tools/list': listCache, 'resources/templates/list': listCache },
  });
  server.setRequestHandler('tools/list', () => ({ tools: toolList() }));
  server.setRequestHandler('tools/call', (request, context) =>
    answerCall(
      stoa,
      callerOf(server, context),
      request.params.name,
      request.params.arguments ?? {},
      context.mcpReq.signal,
    ),
  );
  server.setRequestHandler('resources/list', (request, context) =>
    refusing(stoa, async () =>
      listResources(stoa, await readerOf(stoa, server, context), request.params?.cursor),
    ),
  );
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates }));
  server.setRequestHandler('resources/read', (request, context) =>
    refusing(stoa, async () => read(stoa, await readerOf(stoa, server, context), request.params.uri)),
  );
  if (subscriptions !== undefined) addSubscriptions(server, stoa, subscriptions);
  return server;
}

/** Reads are recorded under the name of their reader, too. */
async function readerOf(stoa: Stoa, server: Server, context: ServerContext): Promise<Caller> {
  const caller = callerOf(server, context);
  await stoa.registry.agents.checkOwnName(caller);
  return caller;
}

async function read(stoa: Stoa, caller: Caller, uri: string) {
  const target = targetOf(uri);
  const found = target === undefined ? undefined : await readResource(stoa, caller, target);
  if (found === undefined) throw new ResourceNotFoundError(uri);
  return { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(found) }] };
}

function addSubscriptions(server: Server, stoa: Stoa, subscriptions: Subscriptions): void {
  server.setRequestHandler('resources/subscribe', (request) =>
    refusing(stoa, async () => {
      checkSubscribable(stoa, request.params.uri);
      await subscriptions.add(request.params.uri);
      return {};
    }),
  );
  server.setRequestHandler('resources/unsubscribe', (request) =>
    refusing(stoa, async () => {
      await subscriptions.remove(request.params.uri);
      return {};
    }),
  );
}

/**
 * Resources have no results for errors: their refusals are errors of the protocol, with our code and fix as
 * data.
 */
async function refusing<T>(stoa: Stoa, body: () => T | Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (thrown) {
    if (thrown instanceof ProtocolError) throw thrown;
    const failure = failureOf(stoa, thrown);
    throw new ProtocolError(
      failure.code === 'internal' ? ProtocolErrorCode.InternalError : ProtocolErrorCode.InvalidParams,
      failure.detail,
      failure,
    );
  }
}
