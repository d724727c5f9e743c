/** The address bar: every view has an address under /console/, and Back works. */
import { Observable } from './observable.js';

export interface Route {
  /** Segments after /console/, decoded. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

const base = '/console/';

export const route = new Observable<Route>(readRoute());

function readRoute(): Route {
  const { pathname, search } = globalThis.location;
  const rest = pathname.startsWith(base) ? pathname.slice(base.length) : '';
  return { path: rest.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(search) };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not percent-encoded UTF-8: the segment stays as it was typed.
    return segment;
  }
}

/** The address of a view. The chosen user stays, because another user's records have other ids. */
export function href(
  path: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const given = new URLSearchParams();
  const user = route.value.query.get('user');
  if (user !== null) given.set('user', user);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === '') given.delete(name);
    else given.set(name, value);
  }
  const text = given.toString();
  return base + path.map(encodeURIComponent).join('/') + (text === '' ? '' : `?${text}`);
}

export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  if (replace) globalThis.history.replaceState(null, '', to);
  else globalThis.history.pushState(null, '', to);
  route.set(readRoute());
}

/** Changes parameters of this view without a step in the history. */
export function setQuery(query: Readonly<Record<string, string | undefined>>): void {
  const { path, query: current } = route.value;
  navigate(href(path, { ...Object.fromEntries(current), ...query }), { replace: true });
}

/** Links inside the console do not load the page again. */
export function startRouter(): void {
  globalThis.addEventListener('popstate', () => route.set(readRoute()));
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey)
      return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (link === null || link.target !== '' || link.hasAttribute('download')) return;
    const url = new URL(link.href);
    if (url.origin !== globalThis.location.origin || !url.pathname.startsWith(base)) return;
    event.preventDefault();
    navigate(url.pathname + url.search);
  });
}
