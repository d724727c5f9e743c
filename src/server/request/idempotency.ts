/** `Idempotency-Key`: valid for one caller, one agent and one request. */
import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';

export function idempotencyOf(
  request: FastifyRequest,
  caller: Caller | null,
  body: Buffer,
  limits: Limits,
): Idempotency | null {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || key === '')
    throw new StoaError('invalid_request', 'The Idempotency-Key header is empty.', {
      fix: 'Send a value, or remove the header.',
    });
  const received = Buffer.byteLength(key);
  if (received > limits.idempotencyKeyBytesMax)
    throw limitError('invalid_request', {
      subject: 'The Idempotency-Key header',
      unit: 'bytes',
      limit: 'idempotencyKeyBytesMax',
      limits,
      received,
      advice: 'Use a shorter key, for example a UUID',
    });
  const fingerprint = createHash('sha256')
    .update(`${request.method} ${request.url}\n${conditionsOf(request)}`)
    .update(body)
    .digest('base64url');
  return { scope: scopeOf(caller), key, fingerprint, seconds: limits.idempotencySeconds };
}

/** The same body has another meaning with another precondition or another content type. */
function conditionsOf({ headers }: FastifyRequest): string {
  const type = headers['content-type']?.toLowerCase() ?? '';
  const conditions = [
    headers['if-match'],
    headers['if-none-match'],
    ...(type.startsWith('application/merge-patch+json') ? ['merge-patch'] : []),
  ].filter((part) => part !== undefined);
  return conditions.length === 0 ? '' : `${JSON.stringify(conditions)}\n`;
}

/**
 * An answer must not be repeated to narrower credentials, so the scope includes the namespaces. It must not
 * be repeated to another agent either: an answer may be a lease. A signed agent is its identity, whatever its
 * name is.
 */
function scopeOf(caller: Caller | null): string {
  if (caller === null) return 'anyone';
  const { kind, user, identity, agent, scopes } = caller;
  return JSON.stringify([kind, user, identity, identity === null ? agent : null, scopes.namespaces]);
}
