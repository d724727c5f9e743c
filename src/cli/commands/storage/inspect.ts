/** `stoa inspect`: the families of the store and their raw entries. */
import { type Action, pageQuery, textOption } from '../../definitions/definition.js';
import { sizeText } from '../../output/output.js';

export const inspect: Action = async ({ connect, output }, [family], options) => {
  const connection = await connect();
  if (family === undefined) {
    const page = await connection.call('server.listFamilies', {});
    output.list(
      page,
      [
        ['FAMILY', (row) => row.family],
        ['ENTRIES', (row) => `${row.estimated ? '~' : ''}${row.entries}`],
        ['SIZE', (row) => sizeText(row.size_bytes)],
      ],
      'No families.',
    );
    return;
  }
  const page = await connection.call('server.listEntries', {
    family,
    prefix: textOption(options, 'prefix'),
    ...pageQuery(options),
  });
  output.list(
    page,
    [
      ['KEY', (entry) => keyText(entry.key)],
      ['DECODED', (entry) => entry.decoded ?? `0x${entry.value}`],
    ],
    `Nothing in ${family}.`,
  );
};

const bytesShown = 4;
/** Fewer printable bytes in a row are probably not text. */
const textBytesMin = 3;
const text = new RegExp(`[\\x20-\\x7E]{${textBytesMin},}`, 'g');

/** The text in a key; other bytes are hex, of which the first few are shown: `<6a880eb2…>notes<00>plan`. */
export function keyText(hex: string): string {
  // Latin-1 has a character for each byte.
  const key = Buffer.from(hex, 'hex').toString('latin1');
  let [shown, at] = ['', 0];
  for (const { 0: found, index } of key.matchAll(text)) {
    shown += hexText(key.slice(at, index)) + found;
    at = index + found.length;
  }
  return shown + hexText(key.slice(at));
}

function hexText(bytes: string): string {
  const digits = Buffer.from(bytes, 'latin1').toString('hex');
  if (digits === '') return '';
  return digits.length > 2 * bytesShown ? `<${digits.slice(0, 2 * bytesShown)}…>` : `<${digits}>`;
}
