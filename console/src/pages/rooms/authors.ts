/** Names of authors, and how far each message is proven. */
import { useEffect } from 'preact/hooks';
import { type RoomMessage, Stoa, StoaError, isAuthentic } from '../../../../src/client/index.js';
import { useWorld } from '../../live/use-world.js';
import { Observable, useObservable } from '../../observable.js';
import type { Tone } from '../../ui/parts.js';

export interface Author {
  readonly name: string;
  /** The registration was signed with the author's key. */
  readonly isProven: boolean;
  /** The server keeps the key, for a caller with a token. */
  readonly isKept: boolean;
}

const storageKey = 'stoa.authors';
const keptMax = 500;
/** Replaced with each profile that was read: several views wait for the same one. */
const authors = new Observable<ReadonlyMap<string, Author>>(new Map(storedAuthors()));
/** The server limits how often an address reads profiles, and blocks an address that goes on. */
const readsAtOnce = 8;
const pauseMs = 60_000;
let pausedUntilMs = 0;
const asked = new Set<string>();

function storedAuthors(): [string, Author][] {
  // Written below, in this tab.
  return JSON.parse(sessionStorage.getItem(storageKey) ?? '[]') as [string, Author][];
}

function keep(id: string, author: Author): void {
  authors.set(new Map([...authors.value, [id, author]]));
  sessionStorage.setItem(storageKey, JSON.stringify([...authors.value].slice(-keptMax)));
}

/** Reads the profiles of authors that are not known yet, a few at a time and each once. */
export function useAuthors(ids: readonly string[]): ReadonlyMap<string, Author> {
  const { view } = useWorld();
  const known = useObservable(authors);
  const missing = [...new Set(ids)].filter((id) => !known.has(id) && !asked.has(id)).slice(0, readsAtOnce);
  useEffect(() => {
    if (Date.now() < pausedUntilMs) return;
    const stoa = new Stoa({ url: globalThis.location.origin, token: view.session.token, attemptsMax: 1 });
    for (const id of missing) {
      asked.add(id);
      stoa.identities
        .get(id)
        .then(({ name, proven, server_kept }) => {
          keep(id, { name: name ?? '', isProven: proven === true, isKept: server_kept === true });
        })
        .catch((error: unknown) => {
          // Without a profile the id is shown.
          if (error instanceof StoaError && error.code === 'rate_limited')
            pausedUntilMs = Date.now() + pauseMs;
        });
    }
  }, [missing.join(' ')]);
  return known;
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
      text: 'server-signed',
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
