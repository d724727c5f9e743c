/** One HTTP request without a time limit: a backup or an import of a large store answers when it is done. */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

export interface RequestOptions {
  method: string;
  headers: Readonly<Record<string, string>>;
  body?: string | Readable | undefined;
}

/** An answer whose body is read as it comes. */
export interface Answer {
  status: number;
  contentType: string;
  body: AsyncIterable<Uint8Array>;
  text(): Promise<string>;
}

/** `fetch` gives up after five minutes without a header, and nothing that Node offers without a package changes that. */
export async function sendRequest(url: string, { method, headers, body }: RequestOptions): Promise<Answer> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const open = new URL(url).protocol === 'https:' ? httpsRequest : httpRequest;
    const request = open(url, { method, headers }, resolve);
    request.on('error', reject);
    if (body instanceof Readable) pipeline(body, request).catch(reject);
    else request.end(body);
  });
  return { status: answer.statusCode ?? 0, contentType: answer.headers['content-type'] ?? '', body: answer, text: () => textOf(answer) };
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
