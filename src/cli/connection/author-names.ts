/** The names of the authors of messages, for people. */
import { StoaError } from '../../core/errors.js';
import { printable } from '../output/printable.js';
import { shortId } from '../output/short-ids.js';
import type { Connection } from './connection.js';

/** Authors whose names are looked up for one page; the others are shown by their short id. */
const authorsMax = 50;

/** The text for an author: the name of the identity, or its short id where it has none. */
export async function authorNames(
  connection: Connection,
  messages: readonly { from: string }[],
): Promise<(identity: string) => string> {
  const authors = [...new Set(messages.map(({ from }) => from))].slice(0, authorsMax);
  const names = new Map(
    await Promise.all(
      authors.map(async (identity) => [identity, await nameOf(connection, identity)] as const),
    ),
  );
  return (identity) => names.get(identity) ?? shortId(identity);
}

async function nameOf(connection: Connection, identity: string): Promise<string | undefined> {
  try {
    const { name } = await connection.call('identities.get', { identity });
    return name === undefined || name === '' ? undefined : printable(name);
  } catch (error) {
    // An identity can be deleted while its messages are kept, and requests for profiles are limited.
    if (error instanceof StoaError && (error.code === 'not_found' || error.status === 429)) return undefined;
    throw error;
  }
}
