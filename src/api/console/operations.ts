/** The operations of the console: how a person signs in and out. */
import { type OperationTable, anyone, bearers } from '../operation.js';

export const consoleOperations = {
  createLink: {
    method: 'POST',
    path: '/v1/console/links',
    summary: 'Create a one-time sign-in link of the console, with the rights of the caller',
    principals: bearers,
    bodiless: true,
    repeatable: true,
    // The link has the rights of the caller: a read-only token makes a read-only session.
    writes: false,
  },
  signIn: {
    method: 'POST',
    path: '/v1/console/session',
    summary: 'Exchange the code of a one-time link for a session',
    principals: anyone,
  },
  session: {
    method: 'GET',
    path: '/v1/console/session',
    summary: 'Get who the caller is and when the session expires',
    principals: bearers,
  },
  signOut: {
    method: 'DELETE',
    path: '/v1/console/session',
    summary: 'End the session of the caller; a token of the API stays valid',
    principals: bearers,
    repeatable: true,
    writes: false,
  },
} as const satisfies OperationTable;
