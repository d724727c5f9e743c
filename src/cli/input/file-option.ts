/** Options that name a file to read; `-` is standard input. */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { StoaError, fileReasonOf, messageOf } from '../../core/errors.js';
import { type Options, textOption } from '../definitions/definition.js';

export async function readText(options: Options, name: string): Promise<string | undefined> {
  const file = textOption(options, name);
  if (file === undefined) return undefined;
  if (file === '-') return text(process.stdin);
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new StoaError('invalid_request', `${file} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
    });
  }
}

export async function readJson(options: Options, name: string): Promise<unknown> {
  const content = await readText(options, name);
  if (content === undefined) return undefined;
  try {
    return JSON.parse(content);
  } catch (error) {
    throw new StoaError('invalid_request', `${textOption(options, name)} is not JSON: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}
