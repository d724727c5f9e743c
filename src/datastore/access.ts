/** Which namespaces a caller can read and write. */
import { type Caller, requireWriteScope } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import type { Scope } from './model.js';
import { checkNamespace } from './names.js';

function reaches(caller: Caller, namespace: string): boolean {
  return caller.scopes.namespaces === null || caller.scopes.namespaces.includes(namespace);
}

/** The namespace to read from. Throws if the caller may not read it. */
export function readableScope(caller: Caller, namespace: string, limits: Limits): Scope {
  checkNamespace(namespace, limits);
  if (!reaches(caller, namespace)) {
    throw new StoaError('forbidden', `These credentials cannot access the namespace "${namespace}".`, {
      fix: 'Use a token that includes this namespace.',
      details: { namespaces: caller.scopes.namespaces },
    });
  }
  return { user: caller.user, namespace };
}

/** The namespace to write to. Throws if the caller may not write to it. */
export function writableScope(caller: Caller, namespace: string, limits: Limits): Scope {
  requireWriteScope(caller);
  return readableScope(caller, namespace, limits);
}
