/** The client for the signed-in caller and the chosen user. */
import { Stoa, StoaError } from '../../src/client/index.js';
import { Observable } from './observable.js';
import { route } from './router.js';
import { type Session, leave, sentenceOf, sessionState } from './session.js';

export interface View {
  readonly session: Session;
  readonly stoa: Stoa;
  /** The user that the operator has chosen; undefined for all users. */
  readonly user: string | undefined;
  /** False for a token that only reads. */
  readonly canWrite: boolean;
  readonly isOperator: boolean;
}

/** Undefined until somebody is signed in. Replaced when another user is chosen. */
export const view = new Observable<View | undefined>(undefined);

export function startView(): void {
  const update = (): void => {
    const state = sessionState.value;
    if (state.name !== 'signed in') return view.set(undefined);
    const { session } = state;
    const isOperator = session.kind === 'operator';
    const user = isOperator ? route.value.query.get('user') || undefined : undefined;
    if (view.value?.session === session && view.value.user === user) return undefined;
    const stoa = new Stoa({
      url: globalThis.location.origin,
      token: session.token,
      user,
      fetch: fetchAsCaller,
    });
    return view.set({ session, stoa, user, canWrite: session.canWrite, isOperator });
  };
  sessionState.subscribe(update);
  route.subscribe(update);
  update();
}

/** A session that was revoked or has expired ends here, whatever page asked. */
const fetchAsCaller: typeof fetch = async (input, init) => {
  const answer = await fetch(input, { ...init, credentials: 'omit', cache: 'no-store' });
  if (answer.status === 401) leave('The session has ended. Sign in again.');
  return answer;
};

/** Calls of pages that are not operations: the metrics. */
export async function fetchText(path: string, session: Session, signal: AbortSignal): Promise<string> {
  const answer = await fetchAsCaller(path, { headers: { authorization: `Bearer ${session.token}` }, signal });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}.`);
  return answer.text();
}

export interface Failure {
  readonly message: string;
  readonly fix: string | null;
  readonly code: string;
}

export function failureOf(error: unknown): Failure {
  return {
    message: sentenceOf(error),
    fix: error instanceof StoaError ? (error.fix ?? null) : null,
    code: error instanceof StoaError ? error.code : 'internal',
  };
}
