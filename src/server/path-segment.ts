/** The parameters of a path that hold any text. */
import { z } from 'zod';
import { decodeSegment } from '../path-segment.js';

/** A path parameter that may be written with `~`. The router has undone the percent-encoding before. */
export const pathSegment = z
  .string()
  .meta({ description: 'Percent-encoded, or `~` followed by the base64url of the UTF-8 bytes.' })
  .transform((segment, context) => {
    const text = decodeSegment(segment);
    if (text === undefined) {
      context.addIssue({
        code: 'custom',
        message: 'After "~" the segment must be unpadded base64url of UTF-8 text.',
      });
      return z.NEVER;
    }
    if (text.length === 0) {
      context.addIssue({ code: 'custom', message: 'The segment is empty.' });
      return z.NEVER;
    }
    return text;
  });
