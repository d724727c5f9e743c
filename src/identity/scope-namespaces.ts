/** The namespaces in the scope of a token or a link: valid names, and a limited number of them. */
import { exceeds } from '../core/settings/exceeds.js';
import type { Limits } from '../core/settings/limits.js';
import { invalidCharacterIn } from '../core/text/invalid-character.js';
import { type FieldError, invalidFields } from '../core/validation/validate.js';

export function checkScopeNamespaces(
  namespaces: readonly string[] | null,
  field: string,
  limits: Limits,
): void {
  if (namespaces === null) return;
  const errors: FieldError[] = [];
  if (namespaces.length > limits.scopeNamespacesMax)
    errors.push({
      field,
      message: exceeds({
        subject: 'The scope',
        unit: 'namespaces',
        limit: 'scopeNamespacesMax',
        limits,
        received: namespaces.length,
      }),
    });
  for (const [index, name] of namespaces.entries()) {
    const message = faultOf(name, limits);
    if (message === undefined) continue;
    errors.push({ field: `${field}.${index}`, message });
    break;
  }
  if (errors.length > 0) throw invalidFields(errors);
}

function faultOf(name: string, limits: Limits): string | undefined {
  if (name === '') return 'The namespace is empty';
  const received = Buffer.byteLength(name);
  if (received > limits.namespaceBytesMax)
    return exceeds({ subject: 'The namespace', unit: 'bytes', limit: 'namespaceBytesMax', limits, received });
  const character = invalidCharacterIn(name);
  return character === undefined ? undefined : `The namespace contains ${character}`;
}
