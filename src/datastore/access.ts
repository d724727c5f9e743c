/** Which namespaces a caller reaches, and what it may do there. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import type { Scope } from './model.js';
import { checkNamespace } from './names.js';

export function reaches(caller: Caller, namespace: string): boolean {
  return caller.scopes.namespaces === null || caller.scopes.namespaces.includes(namespace);
}

/** The namespace for a read, or a refusal. */
export function readableScope(caller: Caller, namespace: string, limits: Limits): Scope {
  checkNamespace(namespace, limits);
  if (!reaches(caller, namespace)) {
    throw new StoaError('forbidden', `These credentials do not reach the namespace "${namespace}".`, {
      details: { namespaces: caller.scopes.namespaces },
    });
  }
  return { user: caller.user, namespace };
}

/** The namespace for a write, or a refusal. */
export function writableScope(caller: Caller, namespace: string, limits: Limits): Scope {
  if (!caller.scopes.write) throw new StoaError('forbidden', 'These credentials may only read.');
  return readableScope(caller, namespace, limits);
}
