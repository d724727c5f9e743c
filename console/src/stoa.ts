/** The client for the signed-in caller and the chosen user. */
import { Stoa, StoaError } from '../../src/client/index.js';
import { Observable } from './observable.js';
import { route } from './router.js';
import { type Session, leave, sentenceOf, sessionState } from './session.js';

export interface View {
  readonly session: Session;
  readonly stoa: Stoa;
  /** Asks as an agent of a user, for what only the agent's own name shows. */
  asAgent(user: string, agent: string): Stoa;
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
    const options = { url: globalThis.location.origin, token: session.token, fetch: fetchAsCaller };
    return view.set({
      session,
      stoa: new Stoa({ ...options, user }),
      asAgent: (owner, agent) => new Stoa({ ...options, user: isOperator ? owner : undefined, agent }),
      user,
      canWrite: session.canWrite,
      isOperator,
    });
  };
  sessionState.subscribe(update);
  route.subscribe(update);
  update();
}

/** For commands to copy: the operator names the user whose records they concern. */
export function userFlag({ isOperator, user }: View): string {
  return isOperator ? ` --user ${quoted(user ?? 'ada')}` : '';
}

/** An argument of a shell command. */
export function quoted(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
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
