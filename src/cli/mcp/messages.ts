/** The parts of JSON-RPC that the bridge needs to pass a message on. */
import { StoaError, messageOf } from '../../core/errors.js';

export interface SingleMessage {
  jsonrpc: '2.0';
  id?: string | number;
  method?: string;
  params?: unknown;
  result?: unknown;
}

export type Message = SingleMessage | SingleMessage[];

/** Undefined for a text that is not a message. */
export function parsed(text: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && (!Array.isArray(value) || value.length > 0)
      ? (value as Message)
      : undefined;
  } catch {
    return undefined;
  }
}

export function methodOf(message: Message): string | undefined {
  return Array.isArray(message) || typeof message.method !== 'string' ? undefined : message.method;
}

/** The ids that wait for an answer. */
export function requestIds(message: Message): (string | number)[] {
  return [message]
    .flat()
    .flatMap(({ id, method }) =>
      method !== undefined && (typeof id === 'string' || typeof id === 'number') ? [id] : [],
    );
}

export function errorFor(id: string | number | null, code: number, message: string, data?: object): string {
  return JSON.stringify({
    jsonrpc: '2.0',
    error: { code, message, ...(data !== undefined && { data }) },
    id,
  });
}

/** A failure between the bridge and the server, with a code of the error table. */
export function failureOf(thrown: unknown): { message: string; data: object } {
  if (thrown instanceof StoaError)
    return {
      message: thrown.message,
      data: { code: thrown.code, ...(thrown.fix !== undefined && { fix: thrown.fix }) },
    };
  const cause =
    thrown instanceof Error && thrown.cause !== undefined ? messageOf(thrown.cause) : messageOf(thrown);
  return {
    message: `The server did not answer: ${cause}.`,
    data: { code: 'unreachable', fix: 'The call may have been done. Check before you repeat it.' },
  };
}

const versionKey = 'io.modelcontextprotocol/protocolVersion';
const nameFields: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

/** The headers that repeat fields of a 2026-07-28 message, for proxies that do not read bodies. */
export function routingHeaders(message: Message): Record<string, string> {
  if (Array.isArray(message) || message.method === undefined) return {};
  const params = (message.params ?? {}) as Record<string, unknown>;
  const version = ((params['_meta'] ?? {}) as Record<string, unknown>)[versionKey];
  if (typeof version !== 'string') return {};
  const name = params[nameFields[message.method] ?? ''];
  return {
    'mcp-protocol-version': version,
    'mcp-method': headerText(message.method),
    ...(typeof name === 'string' && { 'mcp-name': headerText(name) }),
  };
}

/** Headers contain visible ASCII; other text is sent as base64, marked as the protocol says. */
function headerText(text: string): string {
  return /^[\x21-\x7e]+$/.test(text) && !text.startsWith('=?')
    ? text
    : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}
