import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Call, findViolation } from './linearizable.js';
import {
  type DocumentInput,
  type DocumentOutput,
  type DocumentState,
  type LeaseInput,
  type LeaseOutput,
  documentModel,
  leaseModel,
  withoutUnreadValues,
} from './models.js';

type DocumentCall = Call<DocumentInput, DocumentOutput>;
type LeaseCall = Call<LeaseInput, LeaseOutput>;

const write = (
  calledAtMs: number,
  returnedAtMs: number,
  value: string,
  written: number | 'refused',
  ifVersion?: number,
): DocumentCall => ({
  input: { call: 'write', value, ifVersion },
  output: written === 'refused' ? { refused: 'version_mismatch' } : { written },
  calledAtMs,
  returnedAtMs,
});
const unknownWrite = (calledAtMs: number, value: string, ifVersion?: number): DocumentCall => ({
  input: { call: 'write', value, ifVersion },
  output: undefined,
  calledAtMs,
  returnedAtMs: Infinity,
});
const read = (
  calledAtMs: number,
  returnedAtMs: number,
  version: number,
  value: string | null,
): DocumentCall => ({
  input: { call: 'read' },
  output: { found: { version, value } },
  calledAtMs,
  returnedAtMs,
});

const heartbeat = (
  calledAtMs: number,
  returnedAtMs: number,
  holder: string,
  output: LeaseOutput | undefined,
): LeaseCall => ({
  input: { call: 'heartbeat', holder, renewal: `${holder} ${calledAtMs}` },
  output,
  calledAtMs,
  returnedAtMs,
});
const lapse = (calledAtMs: number, renewal: string): LeaseCall => ({
  input: { call: 'lapse', renewal },
  output: undefined,
  calledAtMs,
  returnedAtMs: Infinity,
});
const fencedWrite = (
  calledAtMs: number,
  returnedAtMs: number,
  fence: number,
  output: LeaseOutput,
): LeaseCall => ({ input: { call: 'fenced write', fence }, output, calledAtMs, returnedAtMs });

const documents = (...history: DocumentCall[]): boolean =>
  findViolation(documentModel, history) === undefined;
const leases = (...history: LeaseCall[]): boolean => findViolation(leaseModel, history) === undefined;

describe('a document', () => {
  it('that nobody touched is linearizable', () => {
    expect(documents()).toBe(true);
    expect(documents(read(0, 1, 0, null))).toBe(true);
  });

  it('may show a write that is under way, or not yet', () => {
    expect(documents(write(0, 10, 'a', 1), read(1, 2, 0, null))).toBe(true);
    expect(documents(write(0, 10, 'a', 1), read(1, 2, 1, 'a'))).toBe(true);
    expect(documents(write(0, 10, 'a', 1), read(1, 2, 1, 'a'), read(3, 4, 0, null))).toBe(false);
  });

  it('does not lose a write that has returned', () => {
    expect(documents(write(0, 1, 'a', 1), read(2, 3, 0, null))).toBe(false);
    expect(documents(write(0, 1, 'a', 1), write(2, 3, 'b', 1))).toBe(false);
  });

  it('lets one of two compare-and-sets win', () => {
    expect(documents(write(0, 9, 'a', 1, 0), write(1, 8, 'b', 'refused', 0))).toBe(true);
    expect(documents(write(0, 9, 'a', 1, 0), write(1, 8, 'b', 1, 0))).toBe(false);
    expect(documents(write(0, 9, 'a', 'refused', 0), write(1, 8, 'b', 'refused', 0))).toBe(false);
  });

  it('shows a write of unknown outcome from now on, later, or never', () => {
    const unknown = unknownWrite(0, 'a');
    expect(documents(unknown, read(1, 2, 0, null))).toBe(true);
    expect(documents(unknown, read(1, 2, 1, 'a'))).toBe(true);
    expect(documents(unknown, read(1, 2, 0, null), read(3, 4, 1, 'a'))).toBe(true);
    expect(documents(unknown, read(1, 2, 1, 'a'), read(3, 4, 0, null))).toBe(false);
    expect(documents(unknown, read(1, 2, 1, 'a'), read(3, 4, 2, 'a'))).toBe(false);
  });

  it('is decided soon although the outcome of many writes is unknown', () => {
    const history = Array.from({ length: 40 }, (_, index) => unknownWrite(index, `v${index}`));
    const reads = [read(100, 101, 7, 'v3'), read(102, 103, 9, 'v4'), read(104, 105, 8, 'v4')];
    const [first, second] = [
      withoutUnreadValues([...history, ...reads.slice(0, 2)]),
      withoutUnreadValues([...history, ...reads]),
    ];
    expect(documents(...first)).toBe(true);
    expect(documents(...second)).toBe(false);
  });

  it('never shows a write before it began', () => {
    expect(documents(read(0, 1, 1, 'a'), unknownWrite(2, 'a'))).toBe(false);
  });

  it('says where a history went wrong', () => {
    const good = write(0, 1, 'a', 1);
    const stale = read(2, 3, 0, null);
    expect(findViolation(documentModel, [good, stale])).toEqual({ ordered: [good], stuckAt: [stale] });
  });
});

describe('a lease', () => {
  it('has one holder at a time', () => {
    expect(leases(heartbeat(0, 1, 'a', { fence: 1 }), heartbeat(2, 3, 'b', 'held by another'))).toBe(true);
    expect(leases(heartbeat(0, 1, 'a', { fence: 1 }), heartbeat(2, 3, 'b', { fence: 1 }))).toBe(false);
    expect(leases(heartbeat(0, 1, 'a', { fence: 1 }), heartbeat(2, 3, 'b', { fence: 2 }))).toBe(false);
  });

  it('passes on when its time is over, with a higher number', () => {
    const held = heartbeat(0, 1, 'a', { fence: 1 });
    const over = lapse(100, 'a 0');
    expect(leases(held, over, heartbeat(101, 102, 'b', { fence: 2 }))).toBe(true);
    expect(leases(held, over, heartbeat(101, 102, 'b', { fence: 1 }))).toBe(false);
    expect(leases(held, over, heartbeat(98, 99, 'b', { fence: 2 }))).toBe(false);
  });

  it('does not pass on by the time of a renewal that was renewed', () => {
    const history = [
      heartbeat(0, 1, 'a', { fence: 1 }),
      heartbeat(50, 51, 'a', { fence: 1 }),
      lapse(100, 'a 0'),
    ];
    expect(leases(...history, heartbeat(101, 102, 'b', 'held by another'))).toBe(true);
    expect(leases(...history, heartbeat(101, 102, 'b', { fence: 2 }))).toBe(false);
    expect(leases(...history, lapse(150, 'a 50'), heartbeat(151, 152, 'b', { fence: 2 }))).toBe(true);
  });

  it('may be held by a heartbeat whose answer was lost', () => {
    const lost = heartbeat(0, Infinity, 'a', undefined);
    expect(leases(lost, heartbeat(2, 3, 'b', 'held by another'))).toBe(true);
    expect(leases(lost, heartbeat(2, 3, 'b', { fence: 1 }))).toBe(true);
    expect(leases(lost, heartbeat(2, 3, 'b', { fence: 2 }))).toBe(false);
  });

  it('refuses late writes of a lost holder, and no others', () => {
    const history = [
      heartbeat(0, 1, 'a', { fence: 1 }),
      lapse(100, 'a 0'),
      heartbeat(101, 102, 'b', { fence: 2 }),
    ];
    expect(leases(...history, fencedWrite(103, 104, 1, 'fenced'))).toBe(true);
    expect(leases(...history, fencedWrite(103, 104, 1, 'accepted'))).toBe(false);
    expect(leases(...history, fencedWrite(103, 104, 2, 'accepted'))).toBe(true);
    expect(leases(...history, fencedWrite(50, 51, 1, 'fenced'))).toBe(false);
  });
});

describe('histories at random', () => {
  /** Calls of a document that exists: each takes effect at one moment between its beginning and its end. */
  const histories = fc
    .array(
      fc.record({
        kind: fc.constantFrom(
          'read' as const,
          'write' as const,
          'compare-and-set' as const,
          'stale' as const,
        ),
        before: fc.nat(20),
        after: fc.nat(20),
        isUnknown: fc.boolean(),
      }),
      { maxLength: 40 },
    )
    .map((drawn) => {
      let state: DocumentState = { version: 0, value: null };
      return drawn.map(({ kind, before, after, isUnknown }, index): DocumentCall => {
        const value = `v${index}`;
        const ifVersion = { write: undefined, 'compare-and-set': state.version, stale: state.version + 1 };
        const input: DocumentInput =
          kind === 'read' ? { call: 'read' } : { call: 'write', value, ifVersion: ifVersion[kind] };
        const found = state;
        let output: DocumentOutput = { found };
        if (kind === 'stale') output = { refused: 'version_mismatch' };
        else if (kind !== 'read') {
          state = { version: state.version + 1, value };
          output = { written: state.version };
        }
        const at = index * 10;
        const isLost = isUnknown && kind !== 'read' && index % 4 === 0;
        return {
          input,
          output: isLost ? undefined : output,
          calledAtMs: at - before,
          returnedAtMs: isLost ? Infinity : at + after,
        };
      });
    });

  it('made by one document are linearizable', () => {
    fc.assert(fc.property(histories, (history) => findViolation(documentModel, history) === undefined));
  });

  it('are not when one acknowledged write is repeated or lost', () => {
    fc.assert(
      fc.property(histories, fc.boolean(), (history, isRepeated) => {
        const versions = history.flatMap(({ output }) =>
          output !== undefined && 'written' in output ? [output.written] : [],
        );
        fc.pre(versions.length > 0);
        const last = Math.max(...versions);
        const unknown = history.filter(({ output }) => output === undefined).length;
        // One more than all writes together can have made, or one less than the acknowledged ones.
        const version = isRepeated ? last + unknown + 1 : last - 1;
        const later = read(10_000, 10_001, version, `v${history.length}`);
        return findViolation(documentModel, [...history, later]) !== undefined;
      }),
    );
  });
});
