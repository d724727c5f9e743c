/** A document that is larger than the database allows. */
import { StoaError } from '../core/errors.js';

/** A limit of a database, which Stoa cannot raise. */
export interface DatabaseLimit {
  database: string;
  name: string;
  bytesMax: number;
}

export function documentTooLarge(key: string, sizeBytes: number, limit: DatabaseLimit): StoaError {
  return new StoaError(
    'too_large',
    `The document with the key "${key}" has ${sizeBytes} bytes, which exceeds the ${limit.bytesMax} that ${limit.database} allows.`,
    {
      fix: 'Split the value over several keys, or use a backend with a higher limit.',
      details: { field: 'value', sizeBytes, [limit.name]: limit.bytesMax },
    },
  );
}
