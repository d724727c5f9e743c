/** The namespaces that a token or a link is narrowed to: such as could be, and not without end. */
import type { Limits } from '../core/settings/limits.js';
import { type FieldError, invalidFields } from '../core/validate.js';

export function checkScopeNamespaces(
  namespaces: readonly string[] | null,
  field: string,
  { scopeNamespacesMax, namespaceBytesMax }: Limits,
): void {
  if (namespaces === null) return;
  const errors: FieldError[] = [];
  if (namespaces.length > scopeNamespacesMax)
    errors.push({ field, message: `has at most ${scopeNamespacesMax} namespaces` });
  const wrong = namespaces.findIndex(
    (name) => name === '' || Buffer.byteLength(name) > namespaceBytesMax || /[\p{Cc}\p{Cs}]/u.test(name),
  );
  if (wrong >= 0)
    errors.push({
      field: `${field}.${wrong}`,
      message: `is no namespace: those have 1 to ${namespaceBytesMax} bytes and no control characters`,
    });
  if (errors.length > 0) throw invalidFields(errors);
}
