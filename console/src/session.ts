/**
 * Who is signed in. The session's token is in sessionStorage: it belongs to this origin with its port and to this
 * tab, and no browser sends it by itself. Other tabs of the console get it from a tab that has it.
 */
import { Stoa, StoaError } from '../../src/client/index.js';
import { Observable } from './observable.js';
import { navigate } from './router.js';

export interface Session {
  readonly token: string;
  readonly kind: 'operator' | 'user' | 'agent';
  readonly user: string;
  readonly canWrite: boolean;
  readonly expiresAtMs: number | null;
  readonly version: string;
}

export type SessionState =
  | { readonly name: 'starting' }
  | { readonly name: 'signed out'; readonly reason: string | null }
  /** The server does not answer. The token is kept until the server says that it has ended. */
  | { readonly name: 'waiting'; readonly reason: string }
  | { readonly name: 'signed in'; readonly session: Session };

export const sessionState = new Observable<SessionState>({ name: 'starting' });

const storageKey = 'stoa.session';
const fragmentName = '#sign-in=';
/** How long another tab has to answer. */
const otherTabMs = 150;
const url = globalThis.location.origin;
const tabs = new BroadcastChannel('stoa.session');

type TabMessage = { ask: true } | { token: string } | { signedOut: true };

/** Uses the one-time link of this address, the token of this tab, or that of another tab. */
export async function startSession(): Promise<void> {
  tabs.addEventListener('message', ({ data }: MessageEvent<TabMessage>) => {
    const state = sessionState.value;
    if ('ask' in data && state.name === 'signed in') tabs.postMessage({ token: state.session.token });
    if ('signedOut' in data && state.name === 'signed in') leave(null);
  });
  const { hash } = globalThis.location;
  if (hash.startsWith(fragmentName)) {
    // The code leaves the address bar and the history before anything else happens.
    navigate(globalThis.location.pathname + globalThis.location.search, { replace: true });
    return signInWithCode(hash.slice(fragmentName.length));
  }
  const token = sessionStorage.getItem(storageKey) ?? (await tokenOfOtherTab());
  if (token === undefined) sessionState.set({ name: 'signed out', reason: null });
  else await resume(token);
}

const retryMs = 2_000;

/** Goes on with a session that this browser has, also after a restart of the server. */
async function resume(token: string): Promise<void> {
  for (;;)
    try {
      return enter(token, await new Stoa({ url, token, attemptsMax: 1 }).console.session());
    } catch (error) {
      if (isRefusal(error)) return leave(sentenceOf(error));
      sessionState.set({ name: 'waiting', reason: sentenceOf(error) });
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
}

function isRefusal(error: unknown): boolean {
  return error instanceof StoaError && (error.code === 'unauthenticated' || error.code === 'forbidden');
}

async function signInWithCode(code: string): Promise<void> {
  try {
    const { token, ...facts } = await new Stoa({ url }).console.signIn({ code });
    enter(token, facts);
  } catch (error) {
    // A link that was opened again in a tab that is signed in is not a reason to sign out.
    const token = sessionStorage.getItem(storageKey) ?? (await tokenOfOtherTab());
    if (token === undefined) leave(sentenceOf(error));
    else await resume(token);
  }
}

export async function signInWithToken(token: string): Promise<void> {
  try {
    enter(token, await new Stoa({ url, token }).console.session());
  } catch (error) {
    if (error instanceof StoaError && error.code === 'forbidden')
      leave('These credentials belong to an agent. Use a token of a user, or of the operator.');
    else leave(sentenceOf(error));
  }
}

type Facts = Awaited<ReturnType<Stoa['console']['session']>>;

function enter(token: string, { kind, user, scopes, expires_at, version }: Facts): void {
  sessionStorage.setItem(storageKey, token);
  const expiresAtMs = expires_at === null ? null : Date.parse(expires_at);
  sessionState.set({
    name: 'signed in',
    session: { token, kind, user, canWrite: scopes.write, expiresAtMs, version },
  });
}

/** Ends the session on the server and in every tab. */
export async function signOut(): Promise<void> {
  const state = sessionState.value;
  if (state.name !== 'signed in') return;
  tabs.postMessage({ signedOut: true });
  leave(null);
  try {
    await new Stoa({ url, token: state.session.token, attemptsMax: 1 }).console.signOut();
  } catch (error) {
    // A session that the server does not know any more has ended too.
    if (!(error instanceof StoaError) || error.code !== 'unauthenticated')
      sessionState.set({
        name: 'signed out',
        reason: `The server did not end the session: ${sentenceOf(error)}`,
      });
  }
}

/** Forgets the token of this tab. */
export function leave(reason: string | null): void {
  sessionStorage.removeItem(storageKey);
  sessionState.set({ name: 'signed out', reason });
}

function tokenOfOtherTab(): Promise<string | undefined> {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel('stoa.session');
    const end = (token: string | undefined): void => {
      clearTimeout(timer);
      channel.close();
      resolve(token);
    };
    const timer = setTimeout(() => end(undefined), otherTabMs);
    channel.addEventListener('message', ({ data }: MessageEvent<TabMessage>) => {
      if ('token' in data) end(data.token);
    });
    channel.postMessage({ ask: true } satisfies TabMessage);
  });
}

export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
