/** A row of the table route × principal: how to ask, and what each principal gets. */
import type { Running } from '../running.js';

export const principals = ['operator', 'user', 'other', 'reader', 'agent', 'nobody'] as const;

/**
 * `operator` acts for alice, `user` is alice, `other` is bob, `reader` is alice with a token that only reads,
 * `agent` is a signed agent of alice, `nobody` has no credentials.
 */
export type TestPrincipal = (typeof principals)[number];

export interface RowRequest {
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Row {
  /**
   * Creates what the request needs for alice, again for each principal; `agentId` is the signed agent's own
   * record.
   */
  request: (running: Running, agentId: string) => RowRequest | Promise<RowRequest>;
  /** The status for each principal. */
  status: Readonly<Record<TestPrincipal, number>>;
  /** On PostgreSQL 501 stands for success: the operation is one of data directories. */
  directoryOnly?: true;
}

/** The statuses in the order operator, user, other, reader, agent, nobody. */
export function statuses(...given: [number, number, number, number, number, number]): Row['status'] {
  const [operator, user, other, reader, agent, nobody] = given;
  return { operator, user, other, reader, agent, nobody };
}

export const open = statuses(200, 200, 200, 200, 200, 200);
