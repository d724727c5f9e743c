/** Names of authors, and how far each message is proven. */
import { useEffect, useState } from 'preact/hooks';
import { type RoomMessage, isAuthentic } from '../../../../src/client/index.js';
import { useWorld } from '../../live/use-world.js';
import type { Tone } from '../../ui/parts.js';

export interface Author {
  readonly name: string;
  /** The registration was signed with the author's key. */
  readonly isProven: boolean;
  /** The server keeps the key, for a caller with a token. */
  readonly isKept: boolean;
}

const authors = new Map<string, Author>();
/** The server limits how often an address reads profiles. */
const readsAtOnce = 12;

/** Reads the profiles of authors that are not known yet, a few at a time. */
export function useAuthors(ids: readonly string[]): ReadonlyMap<string, Author> {
  const { view } = useWorld();
  const [, setRound] = useState(0);
  const missing = [...new Set(ids)].filter((id) => !authors.has(id)).slice(0, readsAtOnce);
  useEffect(() => {
    const stop = new AbortController();
    for (const id of missing)
      view.stoa.identities
        .get(id, { signal: stop.signal })
        .then(({ name, proven, server_kept }) => {
          authors.set(id, { name: name ?? '', isProven: proven === true, isKept: server_kept === true });
          setRound((count) => count + 1);
        })
        // Without a profile the id is shown.
        .catch(() => undefined);
    return () => stop.abort();
  }, [missing.join(' ')]);
  return authors;
}

export interface Proof {
  readonly text: string;
  readonly about: string;
  readonly tone: Tone;
}

/** Checked here in the browser where the server gave the signature. */
export async function proofOf(message: RoomMessage): Promise<boolean> {
  try {
    return await isAuthentic(message);
  } catch {
    // A browser without Ed25519, or a proof that is not readable, proves nothing.
    return false;
  }
}

export function proofText(
  message: RoomMessage,
  author: Author | undefined,
  isVerified: boolean | undefined,
): Proof {
  if (message.server_signed === true)
    return {
      text: 'signed by the server',
      about: 'The author used a token. The server signed the message for the author.',
      tone: 'calm',
    };
  if (isVerified !== true)
    return {
      text: 'not verified',
      about: 'The signature is missing or could not be checked here.',
      tone: 'warn',
    };
  return author?.isProven === true
    ? {
        text: 'signature verified',
        about: 'The author signed this text with the registered key, checked in this browser.',
        tone: 'good',
      }
    : {
        text: 'verified, key not proven',
        about: 'The signature is valid. The registration of the key was not signed.',
        tone: 'busy',
      };
}
