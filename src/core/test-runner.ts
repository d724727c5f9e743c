/** What the conformance suites take from a test runner. The functions of vitest fit as they are. */
import assert from 'node:assert/strict';

type Body = () => void | Promise<void>;

export interface TestRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: Body): unknown;
  beforeAll(body: Body): unknown;
  afterAll(body: Body): unknown;
  afterEach(body: Body): unknown;
  readonly expect: Expect;
}

/** A message says which of several values failed. */
export interface Expect {
  (value: unknown, message?: string): Assertion;
  any(type: unknown): unknown;
  arrayContaining(items: unknown[]): unknown;
  stringContaining(text: string): unknown;
  stringMatching(pattern: RegExp): unknown;
}

export interface Matchers {
  toBe(expected: unknown): void;
  toBeGreaterThan(expected: number): void;
  toBeGreaterThanOrEqual(expected: number): void;
  toBeLessThanOrEqual(expected: number): void;
  toBeNull(): void;
  toBeUndefined(): void;
  toContain(item: unknown): void;
  toContainEqual(item: unknown): void;
  toEqual(expected: unknown): void;
  toHaveLength(length: number): void;
  toHaveProperty(name: string): void;
  toMatch(pattern: RegExp | string): void;
  toMatchObject(expected: object): void;
  toThrow(pattern?: RegExp | string): void;
}

export interface Assertion extends Matchers {
  readonly not: Matchers;
  readonly rejects: { [Name in keyof Matchers]: (...given: Parameters<Matchers[Name]>) => Promise<void> };
}

/** A check that an attempt is refused with a code, and with these other fields of the error. */
export function refusals(expect: Expect) {
  return (attempt: Promise<unknown>, code: unknown, fields: object = {}): Promise<void> =>
    expect(attempt).rejects.toMatchObject({ code, ...fields });
}

/** Repeats the check until it passes. Fails with the last result. */
export async function eventually<T>(
  read: () => T | Promise<T>,
  holds: (seen: T) => boolean,
  secondsMax = 15,
): Promise<T> {
  const deadline = Date.now() + secondsMax * 1000;
  for (;;) {
    const seen = await read();
    if (holds(seen)) return seen;
    assert.ok(Date.now() < deadline, `it never held; the last seen was ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
