/** What a document and a lease do, as the checker needs it. */
import type { Call, Model } from './linearizable.js';

export interface DocumentState {
  /** 0 where there is none. */
  readonly version: number;
  readonly value: string | null;
}

export type DocumentInput =
  | { readonly call: 'read' }
  /** `ifVersion` undefined writes over whatever is there; 0 only where there is none. */
  | { readonly call: 'write'; readonly value: string; readonly ifVersion: number | undefined };

export type DocumentOutput =
  | { readonly found: DocumentState }
  | { readonly written: number }
  | { readonly refused: 'version_mismatch' };

/** A document with compare-and-set: the version grows by one with every write. */
export const documentModel: Model<DocumentState, DocumentInput, DocumentOutput> = {
  initial: { version: 0, value: null },
  step: (state, input, output) => {
    if (input.call === 'read') {
      if (output === undefined) return state;
      const isSame =
        'found' in output && output.found.version === state.version && output.found.value === state.value;
      return isSame ? state : undefined;
    }
    const after = { version: state.version + 1, value: input.value };
    const isAllowed = input.ifVersion === undefined || input.ifVersion === state.version;
    if (output === undefined) return isAllowed ? after : state;
    if ('written' in output) return isAllowed && output.written === after.version ? after : undefined;
    return 'refused' in output && !isAllowed ? state : undefined;
  },
};

/**
 * A value that nobody read is as good as any other: lost writes of such values become the same call, which
 * shortens the search.
 */
export function withoutUnreadValues(
  calls: readonly Call<DocumentInput, DocumentOutput>[],
): Call<DocumentInput, DocumentOutput>[] {
  const read = new Set(
    calls.map(({ output }) => (output !== undefined && 'found' in output ? output.found.value : null)),
  );
  return calls.map((call) =>
    call.output === undefined && call.input.call === 'write' && !read.has(call.input.value)
      ? { ...call, input: { ...call.input, value: 'nobody read it' } }
      : call,
  );
}

export interface LeaseState {
  readonly holder: string | null;
  readonly fence: number;
  /** The heartbeat that the lease was last renewed by. */
  readonly renewal: string | null;
}

export type LeaseInput =
  | { readonly call: 'heartbeat'; readonly holder: string; readonly renewal: string }
  /** A write that shows a fencing number. */
  | { readonly call: 'fenced write'; readonly fence: number }
  /**
   * Time and grace of a renewal are over. Nobody calls it: the history has one of unknown outcome for each
   * heartbeat.
   */
  | { readonly call: 'lapse'; readonly renewal: string };

export type LeaseOutput = { readonly fence: number } | 'held by another' | 'accepted' | 'fenced';

/** The lease of an agent: the fencing number grows whenever a holder is lost. */
export const leaseModel: Model<LeaseState, LeaseInput, LeaseOutput> = {
  initial: { holder: null, fence: 1, renewal: null },
  step: (state, input, output) => {
    switch (input.call) {
      case 'heartbeat': {
        const isFree = state.holder === null || state.holder === input.holder;
        const after = { ...state, holder: input.holder, renewal: input.renewal };
        if (output === undefined) return isFree ? after : state;
        if (typeof output === 'object') return isFree && output.fence === state.fence ? after : undefined;
        return output === 'held by another' && !isFree ? state : undefined;
      }
      case 'fenced write': {
        const expected = input.fence >= state.fence ? 'accepted' : 'fenced';
        return output === undefined || output === expected ? state : undefined;
      }
      case 'lapse': {
        if (output !== undefined || state.holder === null || state.renewal !== input.renewal) return state;
        return { holder: null, fence: state.fence + 1, renewal: null };
      }
    }
  },
};
