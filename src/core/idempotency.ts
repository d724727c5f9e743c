/** A request that may be repeated: the same key and the same request get the same answer. */

export interface Idempotency {
  /** Whose key it is: two callers may use the same one. */
  scope: string;
  key: string;
  /** A hash of what was asked: method, path and body. */
  fingerprint: string;
  /** How long the answer is kept. */
  seconds: number;
  /** The answer holds a secret: only the fact is kept, and a repeat is refused. */
  holdsSecret?: true;
}
