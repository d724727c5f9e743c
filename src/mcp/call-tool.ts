/** Runs one tool call and makes its result. */
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../core/entries-at-most.js';
import { StoaError, messageOf } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { tokenRemovedError } from '../identity/tokens.js';
import { validate } from '../core/validation/validate.js';
import { version } from '../version.js';
import { namingOf, unnamed } from './callers.js';
import { tools } from './tools/index.js';

export const serverInfo = { name: 'stoa', title: 'Stoa', version };

/** The result of a call in the protocol's format. */
export interface CallResult {
  isError?: true;
  /** The tool's answer as JSON, or the error of a failed call. */
  content: [{ type: 'text'; text: string }];
  structuredContent?: Record<string, unknown>;
  [other: string]: unknown;
}

/** A failed call is a result that a model can read; only an unknown tool is a protocol error. */
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
    const acting = await actingIn(stoa, caller, name);
    const seen = saw(stoa, acting);
    // Every output schema is an object.
    const structured = (await tool.run(
      { stoa, caller: acting, signal },
      validate(tool.input, input),
    )) as Record<string, unknown>;
    await seen;
    // The call may have waited while the token of its caller was revoked. A write checks the token itself.
    if (tool.annotations.readOnlyHint === true && !(await stoa.identity.isLive(acting)))
      throw tokenRemovedError();
    return { content: contentOf(structured), structuredContent: structured };
  } catch (thrown) {
    return { isError: true, content: contentOf({ error: failureOf(stoa, thrown) }) };
  }
}

/**
 * The name of a client may belong to an agent with a key of its own, also since the last call. A client that
 * keeps its name in a session then chooses another name with the tool `agents`, and can use no other tool.
 */
async function actingIn(stoa: Stoa, caller: Caller, tool: string): Promise<Caller> {
  try {
    await stoa.registry.agents.checkOwnName(caller);
    return caller;
  } catch (error) {
    const isTaken = error instanceof StoaError && error.code === 'forbidden';
    if (!isTaken || namingOf(caller)?.isKept !== true) throw error;
    if (tool === 'agents') return unnamed(caller);
    throw new StoaError(error.code, error.message, {
      fix: 'Choose another name: call agents with action "register" and a name that no agent has.',
      details: { ...error.details },
    });
  }
}

/** The agents whose claims were renewed a moment ago, by user and name. */
const renewals = new WeakMap<Stoa, LRUCache<string, number>>();
const agentsMax = 10_000;
const renewEveryMs = 30_000;

/** A call shows that its agent is alive: its presence and its claims are renewed, at most twice a minute. The next call repeats what failed. */
async function saw(stoa: Stoa, caller: Caller): Promise<void> {
  if (caller.agent === null) return;
  const name = `${caller.user}\0${caller.agent}`;
  const nowMs = performance.now();
  const renewedAtMs = renewals.get(stoa) ?? new LRUCache<string, number>(entriesAtMost(agentsMax));
  renewals.set(stoa, renewedAtMs);
  const before = renewedAtMs.get(name);
  if (before !== undefined && nowMs - before < renewEveryMs) return;
  renewedAtMs.set(name, nowMs);
  try {
    await stoa.registry.recordAgentCall(caller);
    await stoa.workspaces.renewClaims(caller);
  } catch (error) {
    renewedAtMs.delete(name);
    // The call itself does not depend on it.
    stoa.onError(error, 'renewing the claims of an MCP client');
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

/** The same sentences as over HTTP. An unexpected error is logged, and its cause is not shown. */
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
