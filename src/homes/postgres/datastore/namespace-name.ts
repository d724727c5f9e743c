/** What the advisory locks of a namespace hash. Names cannot contain control characters. */
import type { Scope } from '../../../datastore/model.js';

export function namespaceName({ user, namespace }: Scope): string {
  return `${user}\n${namespace}`;
}

/** The same of two SQL expressions. */
export function namespaceNameSql(user: string, namespace: string): string {
  return `${user} || E'\\n' || ${namespace}`;
}
