/** Signs requests by RFC 9421: method, URL and body, each time with a new nonce. No Node built-ins. */
import { toBase64 } from './base64.js';
import type { AgentKeys } from './keys.js';

/**
 * A `fetch` that signs its requests. `keyId` is called for each request, because an agent gets its id when it
 * registers.
 */
export function signedFetch(
  keys: () => AgentKeys,
  keyId: () => string | undefined,
  send: typeof fetch,
): typeof fetch {
  return async (input, init = {}) => {
    const id = keyId();
    const url = String(input);
    if (id === undefined) return send(url, init);
    const method = init.method ?? 'GET';
    const body = typeof init.body === 'string' ? init.body : '';
    const digest = `sha-256=:${toBase64(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(body))))}:`;
    const nonce = toBase64(crypto.getRandomValues(new Uint8Array(18)));
    const parameters = `("@method" "@target-uri" "content-digest");created=${Math.floor(Date.now() / 1000)};nonce="${nonce}";keyid="${id}";alg="ed25519"`;
    const base = `"@method": ${method}\n"@target-uri": ${url}\n"content-digest": ${digest}\n"@signature-params": ${parameters}`;
    const headers = new Headers(init.headers);
    headers.set('content-digest', digest);
    headers.set('signature-input', `sig1=${parameters}`);
    headers.set('signature', `sig1=:${await keys().sign(base)}:`);
    return send(url, { ...init, headers });
  };
}
