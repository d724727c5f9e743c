/** An embedder behind HTTP, in the shape of OpenAI's `/v1/embeddings`. */
import { messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { AnswerUnusable, type Embedder, EmbedderUnavailable, TextsRefused } from './embedder.js';
import { groupedDigits } from '../../core/text/grouped-digits.js';

export interface HttpEmbedderOptions {
  readonly url: string;
  readonly model: string;
  readonly dimensions: number;
  /** Sent as a bearer token; never logged or shown. */
  readonly token: string | null;
  readonly limits: Limits;
}

/** Characters of a refusal that are repeated in an error. */
const refusalCharactersMax = 200;

export function httpEmbedder({ url, model, dimensions, token, limits }: HttpEmbedderOptions): Embedder {
  return {
    model,
    dimensions,
    embed: async (texts, signal) => {
      const body = JSON.stringify({ model, input: texts, encoding_format: 'float' });
      const response = await reached(() =>
        fetch(url, {
          method: 'POST',
          // The token must not follow the request to another server.
          redirect: 'manual',
          headers: {
            'content-type': 'application/json',
            ...(token !== null && { authorization: `Bearer ${token}` }),
          },
          body,
          signal,
        }),
      );
      const text = await reached(() => limitedText(response, limits.embedAnswerBytesMax));
      if (response.status !== 200) throw refusalOf(response, text, token);
      return vectorsOf(text, texts.length);
    },
  };
}

async function reached<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AnswerUnusable) throw error;
    throw new EmbedderUnavailable(reasonOf(error), { cause: error });
  }
}

/** `fetch failed` does not say why; its cause does. */
function reasonOf(error: unknown): string {
  if (error instanceof DOMException && /^(TimeoutError|AbortError)$/.test(error.name))
    return 'it took too long (embedSecondsMax)';
  return messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error);
}

async function limitedText(response: Response, bytesMax: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  // A stream of the DOM types is not iterable for the compiler; in Node it is.
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    // Leaving the loop cancels the rest of the answer.
    if (size > bytesMax)
      throw new AnswerUnusable(`it is larger than ${groupedDigits(bytesMax)} bytes (embedAnswerBytesMax)`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** 408, 409, 425, 429 and 5xx pass; a wrong token or address is for the operator; the rest is about the texts. */
function refusalOf(
  { status, headers }: Response,
  text: string,
  token: string | null,
): TextsRefused | EmbedderUnavailable {
  const isPassing = [408, 409, 425, 429].includes(status) || status >= 500;
  const isAboutTexts = [400, 413, 422].includes(status);
  const said = shortened(token === null ? text : text.replaceAll(token, '…'));
  const reason = `it answered ${status}${said === '' ? '' : `: ${said}`}`;
  return isPassing || !isAboutTexts
    ? new EmbedderUnavailable(reason, { retryAfterSeconds: retryAfterSeconds(headers.get('retry-after')) })
    : new TextsRefused(reason);
}

/** The header has seconds or a date. Null if it has neither. */
function retryAfterSeconds(given: string | null): number | null {
  if (given === null) return null;
  const seconds = /^\d+$/.test(given.trim()) ? Number(given) : (Date.parse(given) - Date.now()) / 1_000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

function shortened(text: string): string {
  return text.slice(0, refusalCharactersMax).replaceAll(/\s+/g, ' ').trim().replace(/\.+$/, '');
}

function vectorsOf(text: string, texts: number): readonly ArrayLike<number>[] {
  const vectors: unknown[] = Array.from({ length: texts });
  for (const [place, item] of itemsOf(text).entries()) {
    const { index = place, embedding } = item as { index?: unknown; embedding?: unknown };
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= texts)
      throw new AnswerUnusable('it has a vector for a text that was not sent');
    vectors[index] = embedding;
  }
  return vectors as ArrayLike<number>[]; // `checkedVectors` looks at each of them.
}

function itemsOf(text: string): unknown[] {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new AnswerUnusable('it is not JSON');
  }
  const data: unknown =
    typeof answer === 'object' && answer !== null && 'data' in answer ? answer.data : undefined;
  if (!Array.isArray(data) || data.some((item) => typeof item !== 'object' || item === null))
    throw new AnswerUnusable('it has no list "data" of objects');
  return data;
}
