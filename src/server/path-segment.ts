/** Names inside a path: percent-encoded text, or `~` and the base64url of its bytes. */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';

const base64url = /^[A-Za-z0-9_-]*$/;

/** Names that a URL library rewrites or that would read as the escape itself. */
const needsEscape = /^~|^\.{1,2}$|\//;

/** The text that a segment stands for, or undefined when the part after `~` is not base64url of UTF-8 text. */
export function decodeSegment(segment: string): string | undefined {
  if (!segment.startsWith('~')) return segment;
  const encoded = segment.slice(1);
  if (!base64url.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, 'base64url');
  // Only the one spelling of the bytes is taken, so that a name has no second address.
  if (bytes.toString('base64url') !== encoded || !isUtf8(bytes)) return undefined;
  return bytes.toString('utf8');
}

/** The segment for any text; the other direction of `decodeSegment`. */
export function encodeSegment(text: string): string {
  return needsEscape.test(text) ? `~${Buffer.from(text, 'utf8').toString('base64url')}` : encodeURIComponent(text);
}

/** A path parameter that may be written with `~`. The router has undone the percent-encoding before. */
export const pathSegment = z
  .string()
  .meta({ description: 'Percent-encoded, or `~` followed by the base64url of the UTF-8 bytes.' })
  .transform((segment, context) => {
    const text = decodeSegment(segment);
    if (text === undefined) {
      context.addIssue({ code: 'custom', message: 'After "~" the segment must be unpadded base64url of UTF-8 text.' });
      return z.NEVER;
    }
    if (text.length === 0) {
      context.addIssue({ code: 'custom', message: 'The segment is empty.' });
      return z.NEVER;
    }
    return text;
  });
