/** What every server must know of the sessions of MCP clients, so that any of them answers any request. */
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import type { StoaError } from '../../core/errors.js';

export interface McpSession {
  /** A UUID. */
  readonly id: string;
  readonly user: string;
  /**
   * Names the caller that opened the session and its rights, without a secret. Others cannot use the session.
   */
  readonly owner: string;
  /** The name of the client's program; empty if it cannot name an agent. */
  readonly client: string;
  /** The name of the agent that the session is. */
  readonly agent: string;
  readonly protocolVersion: string;
}

export interface FoundMcpSession extends McpSession {
  /** Grows with every change of the session; the first is 1. */
  readonly version: number;
  /** Null if the version is the one that the reader knows. */
  readonly changed: {
    /** In the client's spelling. */
    readonly subscriptions: readonly string[];
    /** The requests that were cancelled last, each with the version of the session since then. */
    readonly cancelled: readonly { readonly version: number; readonly requestId: string | number }[];
  } | null;
}

export interface McpSessionStore {
  /** Beyond the limits of all servers the sessions that were idle longest end. Returns the ids of these. */
  open(session: McpSession): Promise<string[]>;
  /**
   * Returns those of the sessions that exist, and marks them as used. `known` has the version of each that
   * the reader has, or 0.
   */
  find(known: ReadonlyMap<string, number>): Promise<FoundMcpSession[]>;
  /** Refuses more than `mcpSubscriptionsMax`. A session that is gone is ignored. */
  subscribe(id: string, uri: string): Promise<void>;
  unsubscribe(id: string, uri: string): Promise<void>;
  /** Cancels a request on the server that runs it. */
  cancel(id: string, requestId: string | number): Promise<void>;
  /** Names the agent of the session. A session that is gone is ignored. */
  rename(id: string, agent: string): Promise<void>;
  end(id: string): Promise<void>;
}

export function tooManySubscriptions(limits: Limits): StoaError {
  return limitError('overloaded', {
    subject: 'With this resource the client',
    unit: 'subscriptions',
    limit: 'mcpSubscriptionsMax',
    limits,
    received: limits.mcpSubscriptionsMax + 1,
    advice: 'Unsubscribe from resources that are no longer needed',
  });
}
