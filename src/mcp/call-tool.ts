/** One call of a tool, and what it answers. */
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import { StoaError, messageOf } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { validate } from '../core/validate.js';
import { version } from '../version.js';
import { tools } from './tools/index.js';

export const serverInfo = { name: 'stoa', title: 'Stoa', version };

/** The result of a call, as the protocol has it. */
export interface CallResult {
  isError?: true;
  /** What the tool answers as JSON; of a failed call the error. */
  content: [{ type: 'text'; text: string }];
  structuredContent?: Record<string, unknown>;
  [other: string]: unknown;
}

/** A failed call is an answer that a model can read and act on; only a tool that is not there is an error of the protocol. */
export async function answerCall(
  stoa: Stoa,
  caller: Caller,
  name: string,
  input: unknown,
  signal: AbortSignal,
): Promise<CallResult> {
  const tool = tools.get(name);
  if (tool === undefined)
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, 100)}`);
  try {
    // A program may call itself by the name of such an agent.
    await stoa.registry.checkOwnName(caller);
    // Every output schema is an object.
    const structured = (await tool.run({ stoa, caller, signal }, validate(tool.input, input))) as Record<
      string,
      unknown
    >;
    return { content: contentOf(structured), structuredContent: structured };
  } catch (thrown) {
    return { isError: true, content: contentOf({ error: failureOf(stoa, thrown) }) };
  }
}

function contentOf(answer: object): CallResult['content'] {
  return [{ type: 'text', text: JSON.stringify(answer) }];
}

export interface Failure {
  code: string;
  detail: string;
  fix?: string;
  details?: Record<string, unknown>;
}

/** The same words as over HTTP. What nobody foresaw is reported, and says nothing of its cause. */
export function failureOf(stoa: Stoa, thrown: unknown): Failure {
  if (!(thrown instanceof StoaError)) {
    stoa.onError(thrown, `an MCP call: ${messageOf(thrown)}`);
    return { code: 'internal', detail: 'Something went wrong inside the server; its log has the details.' };
  }
  const { code, message, fix, details } = thrown;
  return {
    code,
    detail: message,
    ...(fix !== undefined && { fix }),
    ...(details !== undefined && { details }),
  };
}
