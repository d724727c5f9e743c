/** The sentence and the error for a request that exceeds a limit. */
import { type ErrorCode, StoaError } from '../errors.js';
import { type LimitName, type Limits, isLimitSetting } from './limits.js';
import { groupedDigits } from '../text/grouped-digits.js';

export interface Exceeded<Name extends LimitName> {
  /** What is too large: `The value`. */
  subject: string;
  /** What is counted: `bytes of JSON`. */
  unit: string;
  limit: Name;
  limits: Pick<Limits, Name>;
  /** How many there are; left out where counting stopped at the limit. */
  received?: number;
}

/** `The value has 2,000,000 bytes, which exceeds 1,048,576 (valueBytesMax)`, without the final period. */
export function exceeds<Name extends LimitName>(exceeded: Exceeded<Name>): string {
  const { subject, unit, limit, limits, received } = exceeded;
  const max = groupedDigits(limits[limit]);
  return received === undefined
    ? `${subject} exceeds ${max} ${unit} (${limit})`
    : `${subject} has ${groupedDigits(received)} ${unit}, which exceeds ${max} (${limit})`;
}

/** The advice as a sentence. If an operator can raise the limit, the sentence says so. */
export function fixFor(advice: string, limit: LimitName): string {
  return isLimitSetting(limit) ? `${advice}, or raise ${limit}.` : `${advice}.`;
}

/** An error that names the limit, in its sentence and in its details. */
export function limitError<Name extends LimitName>(
  code: ErrorCode,
  exceeded: Exceeded<Name> & { advice: string; details?: Record<string, unknown> },
): StoaError {
  const { limit, limits, advice, details } = exceeded;
  return new StoaError(code, `${exceeds(exceeded)}.`, {
    fix: fixFor(advice, limit),
    details: { ...details, [limit]: limits[limit] },
  });
}
