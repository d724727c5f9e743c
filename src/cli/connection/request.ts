/** One HTTP request without a time limit: a backup or an import of a large store answers only at its end. */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StoaError } from '../../core/errors.js';

export interface RequestOptions {
  method: string;
  headers: Readonly<Record<string, string>>;
  body?: string | Readable | undefined;
}

/** An answer whose body is read while it arrives. */
export interface Answer {
  status: number;
  contentType: string;
  body: AsyncIterable<Uint8Array>;
  text(): Promise<string>;
}

/**
 * `fetch` fails after five minutes without a header, and Node has no option to change that without a package.
 */
export async function sendRequest(url: string, { method, headers, body }: RequestOptions): Promise<Answer> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const open = new URL(url).protocol === 'https:' ? httpsRequest : httpRequest;
    const request = open(url, { method, headers }, resolve);
    request.on('error', reject);
    if (body instanceof Readable) pipeline(body, request).catch(reject);
    else request.end(body);
  });
  const bytes = bodyOf(answer, new URL(url).origin);
  return {
    status: answer.statusCode ?? 0,
    contentType: answer.headers['content-type'] ?? '',
    body: bytes,
    text: () => textOf(bytes),
  };
}

/** For a server that disconnected before its complete answer: it is unknown how much was done. */
export function endedEarly(server: string, cause?: unknown): StoaError {
  return new StoaError('unreachable', `The server at ${server} disconnected before the work was done.`, {
    cause,
    fix: 'Read its log, and check whether the work was done before you try again.',
  });
}

async function* bodyOf(answer: IncomingMessage, server: string): AsyncGenerator<Uint8Array> {
  try {
    // A stream without an encoding yields bytes.
    for await (const chunk of answer) yield chunk as Buffer;
  } catch (error) {
    throw endedEarly(server, error);
  }
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
