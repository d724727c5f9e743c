/**
 * Namespaces and keys as segments of a path. Most are percent-encoded. Text that a URL library would
 * rewrite or a router would split (`..`, `/`, a leading `~`) is sent as `~` and the base64url of its
 * bytes. No Node built-ins: the client uses this module in browsers.
 */
import { StoaError } from '../errors.js';

export function encodeSegment(text: string): string {
  const encoded = percentEncoded(text);
  return needsBase64(text) ? `~${base64Url(new TextEncoder().encode(text))}` : encoded;
}

/**
 * Text for a path, a query or a header. A lone surrogate would be encoded as U+FFFD, so two names would
 * become the same.
 */
export function percentEncoded(text: string): string {
  if (!text.isWellFormed())
    throw new StoaError(
      'invalid_request',
      `"${text.toWellFormed()}" contains a lone surrogate, which cannot be encoded.`,
    );
  return encodeURIComponent(text);
}

/** The text of a percent-decoded segment, or undefined if it is not valid. */
export function decodeSegment(segment: string): string | undefined {
  if (!segment.startsWith('~')) return segment;
  const bytes = bytesOfBase64Url(segment.slice(1));
  if (bytes === undefined) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The path of a document below `/v1/data/`, as in the change feed. */
export function documentPath(namespace: string, key: string): string {
  return `${encodeSegment(namespace)}/${encodeSegment(key)}`;
}

function needsBase64(text: string): boolean {
  return text === '.' || text === '..' || text.startsWith('~') || text.includes('/') || text.includes('\\');
}

function base64Url(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function bytesOfBase64Url(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  // Other trailing bits would decode to the same bytes, so one key would have several spellings.
  return base64Url(bytes) === text ? bytes : undefined;
}
