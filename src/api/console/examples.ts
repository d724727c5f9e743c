/** Examples of the console's operations. */
import type { ExamplesOf } from '../example.js';

const session = {
  kind: 'user',
  user: 'ada',
  scopes: { write: true, namespaces: null },
  expires_at: '2026-01-31T21:00:00.000Z',
  version: '0.1.0',
} as const;

export const consoleExamples: ExamplesOf<'console'> = {
  createLink: {
    request: {},
    answer: { path: '/console/#sign-in=q3Zr9uXw1dM', expires_at: '2026-01-31T09:05:00.000Z' },
    command: 'stoa console --print',
  },
  signIn: { request: { code: 'q3Zr9uXw1dM' }, answer: { ...session, token: 'the secret of the session' } },
  session: { request: {}, answer: session },
  signOut: { request: {} },
};
