/** An entry of the change feed about one write. It has no values, and says who may see it. */

/** Who may see a change in the feed. The operator sees all changes. */
type Audience =
  /** The user named in `user`. */
  | 'owner'
  /** Every caller with credentials. */
  | 'public'
  /** Only the operator. */
  | 'operator'
  /** The messaging identity named in `recipient`. */
  | 'recipient';

export interface Change {
  domain: 'data' | 'registry' | 'workspaces' | 'locks' | 'messaging' | 'identity';
  /** What happened, as `noun.verb` in the past: `agent.created`, `document.set`. */
  kind: string;
  /** The id of the record, in the form that its route takes. */
  id: string;
  /** The readable id of the owner, or null if the record has no owner. */
  user: string | null;
  /** The name of the agent that made the change. Missing if no agent was named, and in changes that others see. */
  agent?: string;
  /** The version after the change, or null for a record without versions. */
  version: number | null;
  audience?: Audience;
  recipient?: string;
  /**
   * A few short facts that save a reader a request: from, to, session, namespace. Never values or secrets.
   */
  facts?: Record<string, string | number | boolean | null>;
}

/** Adds the name of the agent, unless callers other than the owner see the change. */
export function byAgent(change: Change, agent: string | null): Change {
  return agent === null || (change.audience ?? 'owner') !== 'owner' ? change : { ...change, agent };
}
