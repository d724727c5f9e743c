/** What the change feed says about a write: no values, and who may see it. */

/** Who may see a change in the feed, beside the operator, who sees all. */
export type Audience =
  /** The user named in `user`. */
  | 'owner'
  /** Every caller with credentials. */
  | 'public'
  /** Nobody but the operator. */
  | 'operator'
  /** The messaging identity named in `recipient`. */
  | 'recipient';

export interface Change {
  domain: 'data' | 'registry' | 'workspaces' | 'messaging' | 'identity';
  /** What happened, as `noun.verb` in the past: `agent.created`, `document.set`. */
  kind: string;
  /** The id of the thing, in the form in which its route takes it. */
  id: string;
  /** The readable id of the owner, or null where nobody owns it. */
  user: string | null;
  /** The version after the change, or null for a thing without versions. */
  version: number | null;
  audience?: Audience;
  recipient?: string;
  /** Few, short facts that a reader would otherwise fetch: from, to, session, namespace. Never values or secrets. */
  facts?: Record<string, string | number | boolean | null>;
}
