/** Files with a JSON value on each line: read in pieces, with strict checks of the bytes. */
import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { StoaError, jsonFaultOf, messageOf } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';
import type { Limits } from '../core/settings/limits.js';
import { hasMoreValuesThan } from '../core/text/json-values.js';
import { hasPrototypeKey } from '../core/text/prototype-keys.js';
import { Slices } from '../core/waiting/yielding.js';

export interface FileLine {
  /** From 1. */
  number: number;
  /** The line with its end. */
  bytes: Buffer;
}

const newline = 0x0a;

/** A longer line than the limit ends the reading: it would have to be held in memory. */
export async function* fileLines(path: string, limits: Limits): AsyncGenerator<FileLine> {
  const bytesMax = lineBytesMax(limits);
  let rest: Buffer[] = [];
  let restBytes = 0;
  let number = 0;
  const slices = new Slices();
  for await (const chunk of chunksOf(path)) {
    let from = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      number += 1;
      if (restBytes + end - from > bytesMax) throw tooLong(number, limits, bytesMax);
      yield { number, bytes: Buffer.concat([...rest, chunk.subarray(from, end + 1)]) };
      [rest, restBytes] = [[], 0];
      from = end + 1;
      await slices.pause();
    }
    if (from === chunk.length) continue;
    rest.push(chunk.subarray(from));
    restBytes += chunk.length - from;
    if (restBytes > bytesMax) throw tooLong(number + 1, limits, bytesMax);
  }
  if (rest.length > 0) yield { number: number + 1, bytes: Buffer.concat(rest) };
}

/** Bytes of a line beside the value and the metadata of its document. */
const otherBytesMax = 64 * 1024;

/** Where an operator allows larger values, their lines fit too. */
function lineBytesMax({ importLineBytesMax, valueBytesMax, metadataBytesMax }: Limits): number {
  return Math.max(importLineBytesMax, valueBytesMax + metadataBytesMax + otherBytesMax);
}

function tooLong(number: number, limits: Limits, importLineBytesMax: number): StoaError {
  return limitError('too_large', {
    subject: `Line ${number} of the file`,
    unit: 'bytes',
    limit: 'importLineBytesMax',
    limits: { ...limits, importLineBytesMax },
    advice: 'Remove the line, and import its record in another way',
  });
}

/**
 * A byte of JSON counts for less than two values. So every value that the data store may hold passes, and
 * parsing a line does not take longer than parsing such a value.
 */
const valuesPerByte = 2;

/**
 * The value on a line, or the reason why there is none. Bytes that are not UTF-8 would silently become
 * U+FFFD.
 */
export function parsedLine(bytes: Buffer, { valueBytesMax, metadataBytesMax }: Limits): unknown {
  if (!isUtf8(bytes)) return new StoaError('invalid_request', 'the line is not UTF-8');
  const valuesMax = valuesPerByte * (valueBytesMax + metadataBytesMax);
  if (hasMoreValuesThan(bytes, valuesMax))
    return new StoaError(
      'invalid_request',
      `the line has more than ${valuesMax} values, twice the bytes of a value and its metadata (valueBytesMax, metadataBytesMax)`,
    );
  const text = bytes.toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return new StoaError('invalid_request', `the line is not JSON: ${jsonFaultOf(error)}`);
  }
  return hasPrototypeKey(text, value)
    ? new StoaError('invalid_request', 'the line has a field named "__proto__", which is not allowed')
    : value;
}

/** A file that cannot be read is a StoaError, whether opening or reading it fails. */
async function* chunksOf(path: string): AsyncGenerator<Buffer> {
  const chunks = createReadStream(path, { highWaterMark: 1024 * 1024 })[
    Symbol.asyncIterator
  ]() as AsyncIterator<Buffer>;
  try {
    for (;;) {
      const { done, value } = await chunks.next().catch((error: unknown) => {
        throw new StoaError('invalid_request', `${path} cannot be read: ${messageOf(error)}.`, {
          cause: error,
        });
      });
      if (done === true) return;
      yield value;
    }
  } finally {
    await chunks.return?.();
  }
}
