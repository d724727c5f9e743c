/** URLs for screens and logs, without their passwords. */

const withScheme = /^[a-z][a-z0-9+.-]*:/i;

/**
 * Everything before the last `@` may be a password or a part of one: a password with an unencoded `/`,
 * `?` or `#` makes a URL with another host, or an invalid one. Query parameters that are named after a
 * secret may contain one too.
 */
export function withoutPassword(url: string): string {
  const scheme = withScheme.exec(url)?.[0];
  if (scheme === undefined) return url;
  const place = url.slice(scheme.length).replace(/^(\/\/)?[^]*@/, '$1…@');
  return scheme + place.replace(/([?&][^=&#]*(?:pass|secret|token|key)[^=&#]*=)[^&#]*/gi, '$1…');
}

/**
 * Whether a part of a password was parsed as the path, the query or the fragment. Messages about those parts
 * would then print it.
 */
export function hasStrayAt(url: string): boolean {
  return /^[^:]*:\/\/[^/?#]*[/?#][^]*@/.test(url);
}
