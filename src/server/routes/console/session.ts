/** The handlers of signing in to the console and out of it. */
import { consoleOperations } from '../../../api/console/operations.js';
import { isoTime, isoTimeOrNull } from '../../../core/text/iso-time.js';
import { consoleSchemas } from '../../../api/console/schemas.js';
import type { SessionFacts } from '../../../identity/console-sessions.js';
import { version } from '../../../version.js';
import { answer, routesOf } from '../../route.js';

export const sessionRoutes = routesOf('console', consoleOperations, consoleSchemas, {
  createLink: async ({ stoa, caller }) => {
    const { token, expiresAtMs } = await stoa.identity.console.createCode(caller);
    return { path: signInPath(token), expires_at: isoTime(expiresAtMs) };
  },
  signIn: async ({ stoa, body }) => {
    const { token, facts } = await stoa.identity.console.signIn(body.code);
    return { ...shown(facts), token };
  },
  session: async ({ stoa, caller }) => shown(await stoa.identity.console.describe(caller)),
  signOut: async ({ stoa, caller }) => {
    await stoa.identity.console.signOut(caller);
    return answer(204);
  },
});

/** A fragment stays in the browser: it is in no request, log or referrer. */
export function signInPath(code: string): string {
  return `/console/#sign-in=${code}`;
}

function shown({ kind, user, scopes, expiresAtMs }: SessionFacts) {
  return {
    kind,
    user,
    scopes: { write: scopes.write, namespaces: scopes.namespaces === null ? null : [...scopes.namespaces] },
    expires_at: isoTimeOrNull(expiresAtMs),
    version,
  };
}
