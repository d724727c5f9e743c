/** The operator's token: made at the first start, kept in a file that only its owner can read. */
import { chmod, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, fileReasonOf } from '../core/errors.js';
import { isMissing, privateFile, writeDurably } from '../core/files.js';
import { isOperatorToken, newOperatorToken } from './tokens.js';

export const operatorTokenFile = 'operator.token';

export function operatorTokenPath(dataDir: string): string {
  return join(dataDir, operatorTokenFile);
}

/** The token of a data directory. It is created if it does not exist. */
export async function ensureOperatorToken(dataDir: string): Promise<string> {
  const path = operatorTokenPath(dataDir);
  const found = await readOperatorToken(path);
  if (found === undefined) {
    const token = newOperatorToken();
    await writeDurably(path, `${token}\n`);
    return token;
  }
  if (((await stat(path)).mode & 0o077) !== 0) await chmod(path, privateFile);
  return found;
}

/** Undefined if the file does not exist. */
async function readOperatorToken(path: string): Promise<string | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new StoaError('invalid_config', `${path} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the permissions of the file.',
    });
  }
  const token = text.trim();
  if (isOperatorToken(token)) return token;
  throw new StoaError('invalid_config', `${path} does not contain an operator token.`, {
    fix: 'Delete the file. The server creates a new token when it starts.',
  });
}
