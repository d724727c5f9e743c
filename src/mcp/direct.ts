/**
 * Answers tool calls without the protocol's layers, which check every message a dozen times and send the
 * answer through web streams. Both paths return the result of `answerCall`; this one only writes the
 * envelope. The gain: 147 µs of processor time for a call instead of 376 in a session and 407 by the
 * revision of 2026 (0.50 of a GET instead of 0.19 and 0.15). Only a request that follows the protocol
 * exactly takes this path. A request with a missing, unknown or invalid field goes to those layers, and
 * so do calls that wait, because only those layers can cancel them.
 */
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { namedBy, namingOf, ofOneUser, withNaming } from './callers.js';
import { answerCall, serverInfo } from './call-tool.js';
import type { Exchange } from './exchange.js';
import { type Fields, isFields } from './message-fields.js';
import { tools } from './tools/index.js';

/** The JSON of an answer, ready to be sent. */
export interface DirectAnswer {
  text: string;
  /** The new name of the client's agent, if the call changed it. */
  agent?: string | undefined;
}

interface Call {
  id: string | number;
  name: string;
  input: Fields;
  meta: Fields | undefined;
}

const modernVersion = '2026-07-28';
const metaPrefix = 'io.modelcontextprotocol/';
const requestFields: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params']);
const paramFields: ReadonlySet<string> = new Set(['name', 'arguments', '_meta']);
const modernMetaFields: ReadonlySet<string> = new Set(
  ['protocolVersion', 'clientInfo', 'clientCapabilities'].map((name) => metaPrefix + name),
);
const modernFields = { resultType: 'complete', _meta: { [`${metaPrefix}serverInfo`]: serverInfo } };

/**
 * A call in a session of 2025 that belongs to the caller; undefined if the protocol's layers must answer it.
 */
export async function answerInSession(
  stoa: Stoa,
  exchange: Exchange,
  program: string | undefined,
): Promise<DirectAnswer | undefined> {
  const call = callIn(exchange);
  const version = exchange.request.headers.get('mcp-protocol-version');
  if (
    call === undefined ||
    call.meta !== undefined ||
    version === null ||
    version === modernVersion ||
    !SUPPORTED_PROTOCOL_VERSIONS.includes(version)
  )
    return undefined;
  return answered(stoa, call, namedBy(ofOneUser(exchange.caller), program), exchange.request.signal, {});
}

/** A call by the revision of 2026-07-28, where each request contains everything. */
export async function answerModern(stoa: Stoa, exchange: Exchange): Promise<DirectAnswer | undefined> {
  const call = callIn(exchange);
  const { headers } = exchange.request;
  if (
    call?.meta === undefined ||
    headers.get('mcp-protocol-version') !== modernVersion ||
    headers.get('mcp-method') !== 'tools/call' ||
    headers.get('mcp-name') !== call.name
  )
    return undefined;
  const { meta } = call;
  const client = meta[`${metaPrefix}clientInfo`];
  if (
    !hasOnly(meta, modernMetaFields) ||
    meta[`${metaPrefix}protocolVersion`] !== modernVersion ||
    !isFields(meta[`${metaPrefix}clientCapabilities`])
  )
    return undefined;
  if (
    !isFields(client) ||
    typeof client['name'] !== 'string' ||
    typeof client['version'] !== 'string' ||
    Object.keys(client).length !== 2
  )
    return undefined;
  return answered(
    stoa,
    call,
    withNaming(namedBy(ofOneUser(exchange.caller), client['name'])),
    exchange.request.signal,
    modernFields,
  );
}

function callIn({ request, body }: Exchange): Call | undefined {
  const { headers } = request;
  if (
    request.method !== 'POST' ||
    !isFields(body) ||
    body['method'] !== 'tools/call' ||
    body['jsonrpc'] !== '2.0' ||
    !hasOnly(body, requestFields)
  )
    return undefined;
  const accept = headers.get('accept');
  if (
    accept?.includes('application/json') !== true ||
    !accept.includes('text/event-stream') ||
    headers.get('content-type') !== 'application/json'
  )
    return undefined;
  const { id, params } = body;
  if (
    (typeof id !== 'string' && !Number.isSafeInteger(id)) ||
    !isFields(params) ||
    !hasOnly(params, paramFields)
  )
    return undefined;
  const { name, arguments: input = {}, _meta: meta } = params;
  if (
    typeof name !== 'string' ||
    !tools.has(name) ||
    !isFields(input) ||
    'wait_seconds' in input ||
    (meta !== undefined && !isFields(meta))
  )
    return undefined;
  // The check above allows only a text or a safe whole number.
  return { id: id as string | number, name, input, meta };
}

async function answered(
  stoa: Stoa,
  { id, name, input }: Call,
  caller: Caller,
  signal: AbortSignal,
  more: Fields,
): Promise<DirectAnswer> {
  const result = await answerCall(stoa, caller, name, input, signal);
  const text = JSON.stringify({ result: { ...result, ...more }, jsonrpc: '2.0', id });
  return { text, agent: namingOf(caller)?.renamed };
}

function hasOnly(value: Fields, names: ReadonlySet<string>): boolean {
  return Object.keys(value).every((name) => names.has(name));
}
