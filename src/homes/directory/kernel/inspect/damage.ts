/** What a check of the doctor gets and finds: a row, and the usual kinds of damage. */
import type { Finding } from '../../../../operations/model.js';
import type { Entry } from '../engine.js';
import type { Store } from '../store.js';
import type { Reader, Transaction } from '../transaction.js';

export interface Damage extends Finding {
  /** Repairs the damage inside a transaction of `store`, or of the examined store. */
  applyRepair?: (tx: Transaction) => void;
  store?: Store;
}

/** The value that the repair writes, or a function that repairs more than that. */
type Repair = Buffer | ((tx: Transaction) => void);

type SurplusKind = 'dangling' | 'duplicate' | 'unreadable' | 'wrong';

/** One examination of a page, for checks that read something once for all its rows. */
export type Pass = object;

/** Where a row is examined. */
export interface Examination {
  readonly reader: Reader;
  readonly store: Store;
  readonly pass: Pass;
}

/** A row of the family of a check. If a check cannot read a row it may throw: that is damage too. */
export class ExaminedRow implements Entry, Examination {
  readonly family: string;
  readonly key: Buffer;
  readonly value: Buffer;
  readonly reader: Reader;
  readonly store: Store;
  readonly pass: Pass;

  constructor(family: string, { key, value }: Entry, { reader, store, pass }: Examination) {
    this.family = family;
    this.key = key;
    this.value = value;
    this.reader = reader;
    this.store = store;
    this.pass = pass;
  }

  /** The row must not exist: a row that it belongs to is missing. */
  dangling(problem: string): Damage {
    return this.surplus(problem, 'dangling');
  }

  /** The row must not exist. */
  surplus(problem: string, kind: SurplusKind = 'wrong'): Damage {
    return surplusRow(this.family, this.key, problem, kind);
  }

  /** The content of the row is wrong, and is known from other rows. */
  wrong(problem: string, repair: Repair): Damage {
    return wrongRow(this.family, this.key, problem, repair);
  }

  /** Only a restored backup can repair the row. */
  beyondRepair(problem: string): Damage {
    return this.#damage('wrong', problem, null);
  }

  unreadable(problem: string): Damage {
    return this.#damage('unreadable', problem, null);
  }

  /** What the row belongs to is missing, and only a restored backup has it. */
  orphan(problem: string): Damage {
    return this.#damage('missing', problem, null);
  }

  #damage(kind: Finding['kind'], problem: string, repair: string | null): Damage {
    return damageAt(this.family, this.key, kind, problem, repair);
  }
}

export function missingRow(
  family: string,
  key: Buffer,
  problem: string,
  repair: Buffer | Repair,
  store?: Store,
): Damage {
  return {
    ...damageAt(family, key, 'missing', problem, 'write the row'),
    applyRepair: repairOf(family, key, repair),
    ...(store && { store }),
  };
}

/** A row that must not exist. */
export function surplusRow(family: string, key: Buffer, problem: string, kind: SurplusKind): Damage {
  return {
    ...damageAt(family, key, kind, problem, 'delete the row'),
    applyRepair: (tx) => tx.delete(family, key),
  };
}

/** A row with the wrong content. */
export function wrongRow(family: string, key: Buffer, problem: string, repair: Repair): Damage {
  return {
    ...damageAt(family, key, 'wrong', problem, 'write the row again'),
    applyRepair: repairOf(family, key, repair),
  };
}

function repairOf(family: string, key: Buffer, repair: Repair): (tx: Transaction) => void {
  return typeof repair === 'function' ? repair : (tx) => tx.put(family, key, repair);
}

/** Damage without a repair of its own; `repair` is null if only a restored backup can repair it. */
export function damageAt(
  family: string,
  key: Buffer,
  kind: Finding['kind'],
  problem: string,
  repair: string | null,
): Damage {
  return { family, key: key.toString('hex'), kind, problem, repair };
}
