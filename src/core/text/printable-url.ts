/** URLs for screens and logs: whoever reads them must not learn a password. */

const withScheme = /^[a-z][a-z0-9+.-]*:/i;

/**
 * All that stands before the last `@` may be a password or a part of one: one with a `/`, `?` or `#`
 * that nobody has encoded makes a URL that names another place, or none at all. So do settings in
 * the query that are named after a secret.
 */
export function withoutPassword(url: string): string {
  const scheme = withScheme.exec(url)?.[0];
  if (scheme === undefined) return url;
  const place = url.slice(scheme.length).replace(/^(\/\/)?[^]*@/, '$1…@');
  return scheme + place.replace(/([?&][^=&#]*(?:pass|secret|token|key)[^=&#]*=)[^&#]*/gi, '$1…');
}

/** Whether a part of a password was taken for the path, the query or the fragment: its text could then turn up in any message about them. */
export function hasStrayAt(url: string): boolean {
  return /^[^:]*:\/\/[^/?#]*[/?#][^]*@/.test(url);
}
